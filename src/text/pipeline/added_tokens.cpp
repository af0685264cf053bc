// Finds added tokens in a text, those that are normalized in the normalized text, and splits it around them.
#include "text/pipeline/added_tokens.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"
#include "text/pipeline/word_ends.h"
#include "text/unicode/character_class.h"

namespace heed {
namespace {

std::size_t white_space_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_white_space(next_character(text, next))) break;
    at = next;
  }
  return at;
}

/// Returns where the white space that ends at `end` begins, but at least `least`.
std::size_t white_space_begin(std::string_view text, std::size_t end, std::size_t least) {
  while (end > least && is_white_space(character_before(text, end))) {
    do --end;
    while (!is_utf8_start(text[end]));
  }
  return end;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(character_before(text, begin))) return false;
  return end == text.size() || !is_word(next_character(text, end));
}

}  // namespace

AddedToken plain_token(std::string_view content, bool special) {
  AddedToken token;
  token.content = content;
  token.special = special;
  token.normalized = !special;
  return token;
}

AddedToken parse_added_token(const JsonField& field, std::int32_t id) {
  AddedToken token;
  token.id = id;
  token.content = field.at("content").string();
  token.single_word = field.boolean("single_word", false);
  token.lstrip = field.boolean("lstrip", false);
  token.rstrip = field.boolean("rstrip", false);
  token.special = field.boolean("special", false);
  token.normalized = field.boolean("normalized", !token.special);
  return token;
}

void AddedTokens::add(AddedToken token, const TokenTable& vocabulary) {
  if (token.content.empty()) return;
  const auto known = ids_.find(token.content);
  std::int32_t id = known != ids_.end() ? known->second : vocabulary.find(token.content);
  if (id < 0) {
    id = static_cast<std::int32_t>(vocabulary.count());
    if (!tokens_.empty()) id = std::max(id, tokens_.rbegin()->first + 1);
  }
  token.id = id;
  ids_[token.content] = id;
  tokens_[id] = std::move(token);
}

void AddedTokens::prepare(const Normalizer* normalizer, const std::string& where) {
  std::map<std::string, std::int32_t> original, normalized;  // of equal contents, the later id counts
  keep_word_ends_ = true;
  for (const auto& [id, token] : tokens_) {
    const GrowthLimit limit(where, token.content.size());
    NormalizedText content(token.content, 0, &limit);
    if (token.normalized && normalizer != nullptr) normalizer->apply(content);
    const std::string& looked_for = content.text();
    const bool strips_behind = token.rstrip && !looked_for.empty() &&
                               is_plain_letter(character_before(looked_for, looked_for.size()));
    if (spans_word_end(looked_for) || strips_behind) keep_word_ends_ = false;
    (token.normalized ? normalized : original)[looked_for] = id;
  }
  original_ = TokenMatcher({original.begin(), original.end()});
  normalized_ = TokenMatcher({normalized.begin(), normalized.end()});
}

TokenMatcher::TokenMatcher(std::vector<std::pair<std::string, std::int32_t>> tokens) {
  for (auto& [content, id] : tokens) {
    std::reverse(content.begin(), content.end());
    trie_.insert(content, static_cast<std::uint32_t>(id));
  }
  suffixes_.assign(trie_.size(), trie_.root());
  longest_.resize(trie_.size());
  // By depth, as the suffixes of a node are less deep; the longest tokens first, as they stay to the end.
  std::sort(tokens.begin(), tokens.end(),
            [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::vector<std::uint32_t> nodes(tokens.size(), trie_.root());
  for (std::uint32_t depth = 1; !nodes.empty(); ++depth) {
    while (!nodes.empty() && tokens[nodes.size() - 1].first.size() < depth) nodes.pop_back();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const char byte = tokens[i].first[depth - 1];
      const std::uint32_t parent = nodes[i], node = trie_.next(parent, byte), value = trie_.value(node);
      nodes[i] = node;
      if (depth > 1) suffixes_[node] = step(suffixes_[parent], byte);
      longest_[node] =
          value == Trie::kNone ? longest_[suffixes_[node]] : Match{static_cast<std::int32_t>(value), depth};
    }
  }
}

std::uint32_t TokenMatcher::step(std::uint32_t node, char byte) const {
  for (;; node = suffixes_[node]) {
    const std::uint32_t next = trie_.next(node, byte);
    if (next != Trie::kNone) return next;
    if (node == trie_.root()) return node;
  }
}

std::vector<AddedPart> TokenMatcher::find(std::string_view text,
                                          FunctionRef<bool(std::size_t, std::size_t)> allowed) const {
  std::vector<AddedPart> starts;  // the longest token that begins at a position, from the last to the first
  if (trie_.empty()) return starts;
  std::uint32_t node = trie_.root();
  for (std::size_t at = text.size(); at-- > 0;) {
    if (node == trie_.root() && trie_.next(node, text[at]) == Trie::kNone) continue;
    node = step(node, text[at]);
    if (const Match match = longest_[node]; match.bytes > 0)
      starts.push_back({match.id, at, at + match.bytes});
  }
  std::vector<AddedPart> found;
  for (auto match = starts.rbegin(); match != starts.rend(); ++match) {
    const bool is_free = found.empty() || match->begin >= found.back().end;
    if (is_free && allowed(match->begin, match->end)) found.push_back(*match);
  }
  return found;
}

std::vector<AddedPart> AddedTokens::split(std::string_view text, bool normalized,
                                          FunctionRef<bool(std::size_t, std::size_t)> allowed) const {
  std::vector<AddedPart> parts;
  std::size_t last = 0, space_begin = 0, space_end = 0;  // last run of white space that was scanned
  for (AddedPart match : (normalized ? normalized_ : original_).find(text, allowed)) {
    const AddedToken& token = tokens_.at(match.id);
    if (token.single_word && !stands_alone(text, match.begin, match.end)) continue;
    if (token.lstrip) match.begin = std::max(white_space_begin(text, match.begin, last), last);
    if (token.rstrip) {
      if (match.end < space_begin || match.end > space_end) {
        space_begin = match.end;
        space_end = white_space_end(text, match.end);
      }
      match.end = space_end;
    }
    if (match.begin >= match.end) continue;  // the token before took all of it
    if (last < match.begin) parts.push_back({-1, last, match.begin});
    last = match.end;
    parts.push_back(match);
  }
  if (last < text.size()) parts.push_back({-1, last, text.size()});
  return parts;
}

const AddedToken* AddedTokens::find(std::int64_t id) const {
  const auto place = id >= 0 && id <= INT32_MAX ? tokens_.find(static_cast<std::int32_t>(id)) : tokens_.end();
  return place == tokens_.end() ? nullptr : &place->second;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto place = ids_.find(content);
  return place == ids_.end() ? nullptr : &tokens_.at(place->second);
}

}  // namespace heed
