// Unigram (Kudo 2018): the segmentation with the highest sum of log-probabilities, by the Viterbi algorithm.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "heed/error.h"
#include "text/algorithms/token_model.h"
#include "text/algorithms/unigram_path.h"

namespace heed {
namespace {

constexpr double kUnknownPenalty = 10.0;  // below the lowest score of the vocabulary, as in SentencePiece

struct UnigramEntries {
  TokenTable vocabulary;
  std::vector<double> scores;
};

class Unigram final : public TokenModel {
 public:
  Unigram(UnigramEntries entries, std::int32_t unknown_id, bool byte_fallback)
      : TokenModel(std::move(entries.vocabulary)),
        scores_(std::move(entries.scores)),
        unknown_id_(unknown_id) {
    for (std::size_t id = 0; id < scores_.size(); ++id) {
      trie_.insert(vocabulary().token(static_cast<std::int32_t>(id)), static_cast<std::uint32_t>(id));
    }
    if (byte_fallback) bytes_ = byte_tokens(vocabulary());
    unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  }

  void tokenize(std::string_view piece, ModelTokens& result) const override {
    std::vector<ModelToken>& tokens = result.list;
    UnigramPath<double> best;
    const auto score_of = [this](std::uint32_t id, std::size_t) { return scores_[id]; };
    if (!best.find(piece, trie_, score_of, unknown_id_, unknown_score_)) {
      throw Error("tokenizer: the text has characters outside the vocabulary, and the model has no unk_id");
    }
    const std::size_t first = tokens.size();
    for (std::size_t end = piece.size(); end > 0; end = best[end].begin) {
      const auto& node = best[end];
      // Neighboring unknown tokens are merged.
      if (node.id == unknown_id_ && tokens.size() > first && tokens.back().id == unknown_id_) {
        tokens.back().begin = node.begin;
      } else {
        tokens.push_back({node.id, node.begin, static_cast<std::uint32_t>(end)});
      }
    }
    std::reverse(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end());
    resolve_unknown(piece, first, tokens);
  }

  std::int32_t unknown_id_shown_as_text() const override { return unknown_id_; }

 private:
  /// Replaces unknown text by a token with the same text if there is one, or by its bytes.
  void resolve_unknown(std::string_view piece, std::size_t first, std::vector<ModelToken>& tokens) const {
    const auto from = std::find_if(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end(),
                                   [this](const ModelToken& token) { return token.id == unknown_id_; });
    const std::vector<ModelToken> found(from, tokens.end());
    tokens.erase(from, tokens.end());
    for (ModelToken token : found) {
      const std::string_view text = piece.substr(token.begin, token.end - token.begin);
      if (token.id != unknown_id_) {
        tokens.push_back(token);
      } else if (const std::int32_t id = vocabulary().find(text); id >= 0) {
        token.id = id;
        tokens.push_back(token);
      } else if (!bytes_.empty() && spelled(text)) {
        for (const char byte : text)
          tokens.push_back({bytes_[static_cast<unsigned char>(byte)], token.begin, token.end});
      } else {
        tokens.push_back(token);
      }
    }
  }

  bool spelled(std::string_view text) const {
    return std::all_of(text.begin(), text.end(),
                       [this](char byte) { return bytes_[static_cast<unsigned char>(byte)] >= 0; });
  }

  Trie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::int32_t unknown_id_;
  std::vector<std::int32_t> bytes_;  // empty without byte fallback
};

UnigramEntries read_entries(const JsonField& field) {
  const std::size_t count = field.array_size();
  if (count == 0) field.fail("an array of tokens and scores");
  UnigramEntries entries;
  entries.vocabulary.reserve(count, count * 8);
  entries.scores.reserve(count);
  for (const nlohmann::ordered_json& entry : field.value()) {
    const std::size_t id = entries.scores.size();
    const bool pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!pair || !std::isfinite(entry[1].get<double>()))
      field.at(id).fail("an array of a token and its score");
    const std::string& token = entry[0].get_ref<const std::string&>();
    if (entries.vocabulary.find(token) >= 0) field.at(id).at(std::size_t{0}).fail("a unique token");
    entries.vocabulary.insert(token, static_cast<std::int32_t>(id));
    entries.scores.push_back(entry[1].get<double>());
  }
  return entries;
}

}  // namespace

std::unique_ptr<const TokenModel> parse_unigram(const JsonField& field) {
  UnigramEntries entries = read_entries(field.at("vocab"));
  const auto count = static_cast<std::int64_t>(entries.scores.size());
  const auto unknown = static_cast<std::int32_t>(field.integer("unk_id", 0, count - 1, -1));
  return std::make_unique<Unigram>(std::move(entries), unknown, field.boolean("byte_fallback", false));
}

}  // namespace heed
