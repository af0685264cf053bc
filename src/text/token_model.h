// TokenModel: what splits the pieces of a text into the tokens of a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/json_field.h"
#include "text/token_table.h"

namespace heed {

/// A token and the bytes of the piece it stands for.
struct ModelToken {
  std::int32_t id;
  std::uint32_t begin;
  std::uint32_t end;
};

class TokenModel {
 public:
  explicit TokenModel(TokenTable vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  /// Puts the tokens of `piece`, which is not empty, behind `tokens`.
  virtual void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const = 0;
  /// The id whose tokens are shown as the text they stand for; -1 where there is none.
  virtual std::int32_t shown_as_text() const { return -1; }
  /// Whether the spaces of decoded text are the text's own, which clean_up_tokenization_spaces would spoil.
  virtual bool keeps_spaces() const { return false; }

  const TokenTable& vocabulary() const { return vocabulary_; }

 private:
  TokenTable vocabulary_;
};

/// Byte pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", ACL
/// 2016): merges neighbours, the pair that comes first in the list first, the leftmost of several.
std::unique_ptr<const TokenModel> parse_bpe(const JsonField& field);
/// WordPiece: the longest token that fits, from left to right; all or nothing.
std::unique_ptr<const TokenModel> parse_word_piece(const JsonField& field);
/// Unigram (Kudo, "Subword Regularization", ACL 2018): the tokens whose scores have the highest sum.
std::unique_ptr<const TokenModel> parse_unigram(const JsonField& field);
/// WordLevel: each piece is a token or unknown.
std::unique_ptr<const TokenModel> parse_word_level(const JsonField& field);

/// The model that a `model` object describes; where it has no `type`, that follows from what it holds. Throws
/// Error naming file and field where something is missing, wrong or unknown.
std::unique_ptr<const TokenModel> parse_model(const JsonField& field);

/// The ids of the 256 tokens <0x00> … <0xFF>; -1 where one is missing.
std::vector<std::int32_t> byte_tokens(const TokenTable& vocabulary);

}  // namespace heed
