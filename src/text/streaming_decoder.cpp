// Streaming decoding, and the spaces that clean_up_tokenization_spaces removes.
#include <algorithm>
#include <array>
#include <utility>

#include "core/utf8.h"
#include "heed/text/tokenizer.h"
#include "text/pipeline/stages.h"

namespace heed {
namespace {

/// Returns true for a token like <0x0A>.
bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.substr(0, 3) == "<0x" && token[5] == '>';
}

/// Returns how many bytes of a text are final when spaces are cleaned up, whatever text follows. Each rule
/// begins with a space, and none reaches past a space that follows another character than a space or an
/// apostrophe.
std::size_t settled(std::string_view text) {
  for (std::size_t at = text.size(); at-- > 1;) {
    if (text[at] == ' ' && text[at - 1] != ' ' && text[at - 1] != '\'') return at;
  }
  return 0;
}

/// Returns the length in bytes of the common prefix of two texts, in whole characters.
std::size_t shared_length(std::string_view a, std::string_view b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  auto length = static_cast<std::size_t>(end - a.begin());
  const auto inside = [](std::string_view text, std::size_t at) {
    return at < text.size() && !is_utf8_start(text[at]);
  };
  while (length > 0 && (inside(a, length) || inside(b, length))) --length;
  return length;
}

/// Returns the ids that have text. A model may have more ids than its tokenizer.
std::vector<std::int64_t> decodable(const Tokenizer& tokenizer, std::span<const std::int64_t> ids,
                                    bool skip_special_tokens) {
  std::vector<std::int64_t> kept;
  for (const std::int64_t id : ids) {
    if (id < tokenizer.vocab_size() && !(skip_special_tokens && tokenizer.is_special(id))) kept.push_back(id);
  }
  return kept;
}

}  // namespace

std::string clean_up_spaces(std::string text) {
  constexpr std::array<std::pair<const char*, const char*>, 10> kRules = {{{" .", "."},
                                                                           {" ?", "?"},
                                                                           {" !", "!"},
                                                                           {" ,", ","},
                                                                           {" ' ", "'"},
                                                                           {" n't", "n't"},
                                                                           {" 'm", "'m"},
                                                                           {" 's", "'s"},
                                                                           {" 've", "'ve"},
                                                                           {" 're", "'re"}}};
  for (const auto& rule : kRules) replace_all(text, rule.first, rule.second);
  return text;
}

std::string Tokenizer::decode_clean(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::string text = decode(ids, skip_special_tokens);
  return cleans_up_spaces() ? clean_up_spaces(std::move(text)) : text;
}

std::string Tokenizer::decode_continuation(std::span<const std::int64_t> prompt,
                                           std::span<const std::int64_t> ids,
                                           bool skip_special_tokens) const {
  std::vector<std::int64_t> all = decodable(*this, prompt, skip_special_tokens);
  const std::string before = decode(all, skip_special_tokens);
  all.insert(all.end(), ids.begin(), ids.end());
  std::string text = decode(all, skip_special_tokens);
  text.erase(0, shared_length(before, text));
  return cleans_up_spaces() ? clean_up_spaces(std::move(text)) : text;
}

void StreamingDecoder::begin_after(std::span<const std::int64_t> prompt) {
  ids_ = decodable(tokenizer_, prompt, skip_special_tokens_);
  finished_ = ids_.size();
}

std::string StreamingDecoder::fresh_text(bool last) {
  const std::span<const std::int64_t> ids(ids_);
  const std::string before =
      tokenizer_.decode(ids.subspan(window_, finished_ - window_), skip_special_tokens_);
  const std::string text = tokenizer_.decode(ids.subspan(window_), skip_special_tokens_);
  // A prompt may end inside a character, whose text then changes with the next token.
  const std::size_t known = shared_length(before, text);
  if (known == text.size() || (!last && text.ends_with(kReplacementCharacter))) return {};
  // The next text is decoded together with these ids, because decoders treat the first token differently.
  window_ = finished_;
  finished_ = ids_.size();
  return text.substr(known);
}

std::string StreamingDecoder::release(std::string text, bool last) {
  if (!tokenizer_.cleans_up_spaces()) return text;
  held_ += text;
  const std::size_t certain = last ? held_.size() : settled(held_);
  text = clean_up_spaces(held_.substr(0, certain));
  held_.erase(0, certain);
  return text;
}

std::string StreamingDecoder::push(std::int64_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return {};
  ids_.push_back(id);
  // The text of a run of byte tokens is final only when the run ends.
  if (id < tokenizer_.vocab_size() && is_byte_token(tokenizer_.token(id))) return {};
  return release(fresh_text(false), false);
}

std::string StreamingDecoder::finish() { return release(fresh_text(true), true); }

}  // namespace heed
