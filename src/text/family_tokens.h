// FamilyTokens: the special and added tokens of tokenizers whose family numbers the pieces of a SentencePiece
// model in its own way, read as transformers 5.12.1 reads them.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/json_field.h"
#include "text/added_tokens.h"
#include "text/tokenizer_config.h"

namespace heed {

/// Makes a token that files give by its content alone. A special token is matched in the original text.
AddedToken plain_token(std::string_view content, bool special);

/// A family's default special tokens, by SpecialRole; null if it has none.
struct DefaultTokens {
  std::array<const char*, kSpecialRoles> roles;
  bool mask_strips = false;      ///< whether its mask token includes the white space before it
  bool mask_normalized = false;  ///< whether its mask token is matched in the normalized text
};

class FamilyTokens {
 public:
  /// Takes the objects of tokenizer_config.json, special_tokens_map.json and added_tokens.json. `decoder` has
  /// the tokens of added_tokens_decoder in tokenizer_config.json; if that key exists, both other files are
  /// ignored. additional_special_tokens of the map is ignored. Throws Error naming file and field.
  FamilyTokens(const DefaultTokens& usual, const JsonField& config, const JsonField& map,
               const JsonField& added, const std::vector<AddedToken>& decoder);

  /// Returns the content of a role's token, or nullopt if neither the family nor the files name one.
  const std::optional<std::string>& role(SpecialRole which) const {
    return contents_[static_cast<std::size_t>(which)];
  }
  const std::array<std::optional<std::string>, kSpecialRoles>& roles() const { return contents_; }

  /// Returns all tokens in the order in which they are added. `own` are the model's own tokens, which a list
  /// of additional tokens in tokenizer_config.json replaces.
  std::vector<AddedToken> tokens(const std::vector<AddedToken>& own) const;

 private:
  void read_role(std::size_t index, const DefaultTokens& usual, const std::optional<JsonField>& given);
  void read_extra(const std::optional<JsonField>& list, bool of_map);
  void read_added(const JsonField& document);

  std::array<std::optional<AddedToken>, kSpecialRoles> roles_;
  std::array<std::optional<std::string>, kSpecialRoles> contents_;
  std::set<std::string, std::less<>> named_;  // tokens that the files name as special
  std::vector<AddedToken> added_;
  std::optional<std::vector<AddedToken>> extra_;
};

}  // namespace heed
