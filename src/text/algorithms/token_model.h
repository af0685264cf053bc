// TokenModel: splits pieces of text into tokens of a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_field.h"
#include "text/algorithms/token_table.h"

namespace heed {

/// A token and the range of bytes that it covers in the piece.
struct ModelToken {
  std::int32_t id;
  std::uint32_t begin;
  std::uint32_t end;
};

struct ModelTokens {
  std::vector<ModelToken> list;
  /// Their texts, from a model that shows others than its vocabulary; otherwise empty.
  std::vector<std::string> texts;
};

class TokenModel {
 public:
  explicit TokenModel(TokenTable vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  /// Appends the tokens of `piece`, which is not empty, to `tokens`.
  virtual void tokenize(std::string_view piece, ModelTokens& tokens) const = 0;
  /// Returns the id whose tokens are shown as the text they cover, or -1 if there is none.
  virtual std::int32_t unknown_id_shown_as_text() const { return -1; }
  /// Returns true if the spaces of decoded text are the original ones, which clean_up_tokenization_spaces
  /// would corrupt.
  virtual bool preserves_spaces() const { return false; }
  /// Returns true if an id is a token that no text becomes and that has no text, such as `<s>`. Accepts any
  /// id.
  virtual bool is_control(std::int64_t id) const {
    static_cast<void>(id);
    return false;
  }
  /// For a model that takes whole texts, without normalizer and pre-tokenizer: returns a position at or after
  /// byte `from` such that the tokens of text[0, end) are the first tokens of `text`, or the text's size if
  /// none is known.
  virtual std::size_t safe_end(std::string_view text, std::size_t from) const {
    static_cast<void>(from);
    return text.size();
  }

  const TokenTable& vocabulary() const { return vocabulary_; }

 private:
  TokenTable vocabulary_;
};

/// Byte pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", ACL
/// 2016): repeatedly merges the neighbors whose pair comes first in the list, the leftmost first.
std::unique_ptr<const TokenModel> parse_bpe(const JsonField& field);
/// WordPiece: takes the longest matching token from left to right. If a part has no match, the whole piece is
/// unknown.
std::unique_ptr<const TokenModel> parse_word_piece(const JsonField& field);
/// Unigram (Kudo, "Subword Regularization", ACL 2018): takes the tokens with the highest sum of scores.
std::unique_ptr<const TokenModel> parse_unigram(const JsonField& field);
/// WordLevel: each piece is one token, or unknown.
std::unique_ptr<const TokenModel> parse_word_level(const JsonField& field);

/// Parses a `model` object. Without a `type`, the kind follows from its members. Throws Error naming file and
/// field if something is missing, invalid or unknown.
std::unique_ptr<const TokenModel> parse_model(const JsonField& field);

/// Returns the ids of the 256 tokens <0x00> … <0xFF>; -1 for missing ones.
std::vector<std::int32_t> byte_tokens(const TokenTable& vocabulary);

}  // namespace heed
