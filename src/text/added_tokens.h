// Added tokens: those of a tokenizer file that are found in a text before it is cut, whole and unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_field.h"
#include "text/normalized_text.h"
#include "text/normalizers.h"
#include "text/token_table.h"

namespace heed {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< and behind it
  bool normalized = true;    ///< looked for in the normalised text instead of the original
  bool special = false;
};

/// A part of a text: an added token, or what lies between two (id -1).
struct AddedPart {
  std::int32_t id;
  std::size_t begin;
  std::size_t end;
};

class AddedTokens {
 public:
  /// Adds a token, or changes the one of the same content. One that the vocabulary has keeps its id, others
  /// get the next free one, as the tokenizers library has it; `token.id` counts for nothing.
  void add(AddedToken token, const TokenTable& vocabulary);
  /// To be called after the last add(). `normalizer` may be null; `where` names its file.
  void prepare(const Normalizer* normalizer, const std::string& where);

  /// Cuts a text at the tokens that are looked for in the original, or in the normalised text.
  std::vector<AddedPart> split(std::string_view text, bool normalized) const;

  /// Whether none of them can match or strip across a word end (text/word_ends.h). After prepare().
  bool keep_word_ends() const { return keep_word_ends_; }

  const AddedToken* find(std::int64_t id) const;
  const AddedToken* find(std::string_view content) const;
  /// All of them by id.
  const std::map<std::int32_t, AddedToken>& tokens() const { return tokens_; }

 private:
  std::vector<AddedPart> matches(std::string_view text, const Trie& trie) const;

  std::map<std::int32_t, AddedToken> tokens_;
  std::map<std::string, std::int32_t, std::less<>> ids_;
  Trie original_, normalized_;
  bool keep_word_ends_ = true;
};

/// Reads an element of `added_tokens`, or a value of `added_tokens_decoder`, whose id is its key.
AddedToken parse_added_token(const JsonField& field, std::int32_t id);

}  // namespace heed
