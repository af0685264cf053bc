// FamilyTokens: the special and added tokens that stand beside a SentencePiece model whose pieces a family
// numbers in a way of its own, read as transformers 5.12.1 reads them.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/json_field.h"
#include "text/tokenizer_config.h"

namespace heed {

/// A token as files name it by its content alone: a special one is looked for in the text as it is.
AddedToken plain_token(std::string_view content, bool special);

/// What a family calls its special tokens, by SpecialRole; null where it has none.
struct UsualTokens {
  std::array<const char*, kSpecialRoles> roles;
  bool mask_strips = false;  ///< whether its mask takes the white space before it
};

class FamilyTokens {
 public:
  /// The objects of tokenizer_config.json, special_tokens_map.json and added_tokens.json; `decoder` are the
  /// tokens of the first one's added_tokens_decoder, which stands in for both other files. Of the map,
  /// additional_special_tokens counts for nothing. Throws Error naming file and field.
  FamilyTokens(const UsualTokens& usual, const JsonField& config, const JsonField& map,
               const JsonField& added, const std::vector<AddedToken>& decoder);

  /// The content of a role's token; nothing where the family and the files name none.
  const std::optional<std::string>& role(SpecialRole which) const {
    return contents_[static_cast<std::size_t>(which)];
  }
  const std::array<std::optional<std::string>, kSpecialRoles>& roles() const { return contents_; }

  /// All tokens in the order in which they are added. `own` are those that the model itself brings, which a
  /// list of additional tokens in tokenizer_config.json replaces.
  std::vector<AddedToken> tokens(const std::vector<AddedToken>& own) const;

 private:
  void read_role(std::size_t index, const UsualTokens& usual, const std::optional<JsonField>& given);
  void read_extra(const std::optional<JsonField>& list, bool of_map);
  void read_added(const JsonField& document);

  std::array<std::optional<AddedToken>, kSpecialRoles> roles_;
  std::array<std::optional<std::string>, kSpecialRoles> contents_;
  std::set<std::string, std::less<>> named_;  // what the files call special
  std::vector<AddedToken> added_;
  std::optional<std::vector<AddedToken>> extra_;
};

}  // namespace heed
