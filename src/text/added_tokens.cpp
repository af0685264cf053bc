#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "core/utf8.h"
#include "text/character_class.h"
#include "text/word_ends.h"

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
  original_ = Trie();
  normalized_ = Trie();
  keep_word_ends_ = true;
  for (const auto& [id, token] : tokens_) {
    const GrowthLimit limit(where, token.content.size());
    NormalizedText content(token.content, 0, &limit);
    if (token.normalized && normalizer != nullptr) normalizer->apply(content);
    const std::string& looked_for = content.text();
    const bool strips_behind = token.rstrip && !looked_for.empty() &&
                               is_plain_letter(character_before(looked_for, looked_for.size()));
    if (spans_word_end(looked_for) || strips_behind) keep_word_ends_ = false;
    (token.normalized ? normalized_ : original_).insert(looked_for, static_cast<std::uint32_t>(id));
  }
}

/// Returns the leftmost matches; of those that begin at the same position, the longest.
std::vector<AddedPart> AddedTokens::matches(std::string_view text, const Trie& trie) const {
  std::vector<AddedPart> found;
  if (trie.empty()) return found;
  for (std::size_t at = 0; at < text.size();) {
    AddedPart match{-1, at, at + 1};
    std::uint32_t node = trie.root();
    for (std::size_t end = at; end < text.size();) {
      node = trie.next(node, text[end++]);
      if (node == Trie::kNone) break;
      if (trie.value(node) != Trie::kNone) match = {static_cast<std::int32_t>(trie.value(node)), at, end};
    }
    if (match.id >= 0) found.push_back(match);
    at = match.end;
  }
  return found;
}

std::vector<AddedPart> AddedTokens::split(std::string_view text, bool normalized) const {
  std::vector<AddedPart> parts;
  std::size_t last = 0, space_begin = 0, space_end = 0;  // last run of white space that was scanned
  for (AddedPart match : matches(text, normalized ? normalized_ : original_)) {
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
