// WordPiece and WordLevel, and the choice of a model by its type.
#include <fmt/format.h>

#include "core/utf8.h"
#include "heed/error.h"
#include "text/algorithms/token_model.h"

namespace heed {
namespace {

/// Returns the id of the token, which the vocabulary of `field` must contain.
std::int32_t required_token(const TokenTable& vocabulary, const std::string& token, const JsonField& field) {
  const std::int32_t id = vocabulary.find(token);
  if (id < 0) field.fail(fmt::format("a vocabulary with the unknown token {}", token));
  return id;
}

class WordPiece final : public TokenModel {
 public:
  WordPiece(TokenTable table, const JsonField& field)
      : TokenModel(std::move(table)),
        unknown_id_(required_token(vocabulary(), field.string("unk_token", "[UNK]"), field)),
        most_characters_(field.integer("max_input_chars_per_word", 0, INT32_MAX, 100)) {
    const std::string prefix = field.string("continuing_subword_prefix", "##");
    for (std::int32_t id = 0; id < vocabulary().end_id(); ++id) {
      if (!vocabulary().has(id)) continue;
      const std::string_view token = vocabulary().token(id);
      starts_.insert(token, static_cast<std::uint32_t>(id));
      if (token.substr(0, prefix.size()) == prefix) {
        continuations_.insert(token.substr(prefix.size()), static_cast<std::uint32_t>(id));
      }
    }
  }

  void tokenize(std::string_view piece, ModelTokens& result) const override {
    std::vector<ModelToken>& tokens = result.list;
    const std::size_t first = tokens.size();
    std::int64_t characters = 0;
    for (const char c : piece) characters += is_utf8_start(c) ? 1 : 0;
    bool known = characters <= most_characters_;
    for (std::size_t at = 0; at < piece.size() && known;) {
      const ModelToken token = longest(at == 0 ? starts_ : continuations_, piece, at);
      known = token.id >= 0;
      if (known) tokens.push_back(token);
      at = token.end;
    }
    if (known) return;
    tokens.resize(first);
    tokens.push_back({unknown_id_, 0, static_cast<std::uint32_t>(piece.size())});
  }

 private:
  static ModelToken longest(const Trie& trie, std::string_view piece, std::size_t begin) {
    ModelToken best{-1, static_cast<std::uint32_t>(begin), 0};
    std::uint32_t node = trie.root();
    for (std::size_t at = begin; at < piece.size();) {
      node = trie.next(node, piece[at++]);
      if (node == Trie::kNone) break;
      if (trie.value(node) == Trie::kNone || (at < piece.size() && !is_utf8_start(piece[at]))) continue;
      best.id = static_cast<std::int32_t>(trie.value(node));
      best.end = static_cast<std::uint32_t>(at);
    }
    return best;
  }

  Trie starts_, continuations_;  // the latter without their prefix
  std::int32_t unknown_id_;
  std::int64_t most_characters_;
};

class WordLevel final : public TokenModel {
 public:
  WordLevel(TokenTable table, const JsonField& field)
      : TokenModel(std::move(table)), unknown_(field.string("unk_token", "<unk>")) {}

  void tokenize(std::string_view piece, ModelTokens& tokens) const override {
    std::int32_t id = vocabulary().find(piece);
    if (id < 0) id = vocabulary().find(unknown_);
    if (id < 0) {
      throw Error(fmt::format(
          "tokenizer: the text has words outside the vocabulary, and the unknown token {} is not in it",
          unknown_));
    }
    tokens.list.push_back({id, 0, static_cast<std::uint32_t>(piece.size())});
  }

 private:
  std::string unknown_;
};

}  // namespace

std::unique_ptr<const TokenModel> parse_word_piece(const JsonField& field) {
  return std::make_unique<WordPiece>(parse_vocabulary(field.at("vocab")), field);
}

std::unique_ptr<const TokenModel> parse_word_level(const JsonField& field) {
  return std::make_unique<WordLevel>(parse_vocabulary(field.at("vocab")), field);
}

std::unique_ptr<const TokenModel> parse_model(const JsonField& field) {
  const auto type = field.find("type");
  const std::string name = type                                     ? type->string()
                           : field.find("merges")                   ? "BPE"
                           : field.find("max_input_chars_per_word") ? "WordPiece"
                           : field.at("vocab").value().is_array()   ? "Unigram"
                                                                    : "WordLevel";
  if (name == "BPE") return parse_bpe(field);
  if (name == "WordPiece") return parse_word_piece(field);
  if (name == "Unigram") return parse_unigram(field);
  if (name == "WordLevel") return parse_word_level(field);
  type->fail("a model (BPE, Unigram, WordLevel or WordPiece)");
}

}  // namespace heed
