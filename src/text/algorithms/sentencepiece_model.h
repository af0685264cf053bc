// SentencePiece models: the library's operations that heed uses, and the parts of a pipeline that a model is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "heed/text/training.h"
#include "heed/threads.h"
#include "text/algorithms/token_model.h"
#include "text/pipeline/stages.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace heed {

class SentencePieceUnigram;

/// Stops SentencePiece from logging to stderr.
void silence_sentencepiece();

class SentencePieceModel {
 public:
  /// Parses the bytes of a .model or .spm file. Throws Error, starting with `where`, if they are malformed.
  SentencePieceModel(std::string_view serialized, const std::string& where);
  static SentencePieceModel load(const std::filesystem::path& path);
  ~SentencePieceModel();
  SentencePieceModel(SentencePieceModel&&) noexcept;
  SentencePieceModel& operator=(SentencePieceModel&&) noexcept;

  /// Receives a piece, its id, and the range of bytes of the text that it covers. The piece is valid during
  /// the call only; an unknown piece is the (normalized) text itself.
  using PieceVisitor = FunctionRef<void(std::string_view piece, int id, std::size_t begin, std::size_t end)>;
  void encode(std::string_view text, PieceVisitor visit) const;
  /// Returns a word end (text/word_ends.h) at or after byte `from` of `text` such that the pieces of text[0,
  /// end) are the first pieces of `text`, or the text's size if none is known. Models other than unigram need
  /// the whole text.
  std::size_t safe_end(std::string_view text, std::size_t from) const;
  /// Returns the text of pieces. Pieces that are not in the model are copied.
  std::string decode(const std::vector<std::string_view>& pieces) const;

  int size() const;
  const std::string& piece(int id) const;
  bool is_unknown(int id) const;
  bool is_control(int id) const;

 private:
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::unique_ptr<const SentencePieceUnigram>
      unigram_;  // of unigram models: tokenizes instead of the library
};

/// Makes a model the TokenModel of a pipeline that has no normalizer and no pre-tokenizer. The ids are those
/// of the model.
std::unique_ptr<const TokenModel> sentencepiece_tokens(std::shared_ptr<const SentencePieceModel> model);
/// The same with the ids of `vocabulary`; other pieces get the id `unknown`, but all are shown as they are.
/// With `language_codes`, a code `>>xx<<` at the start of a text is one token.
std::unique_ptr<const TokenModel> sentencepiece_tokens(std::shared_ptr<const SentencePieceModel> model,
                                                       TokenTable vocabulary, std::int32_t unknown,
                                                       bool language_codes);

/// What a decoder does besides joining the pieces with the model.
struct SentencePieceDecoding {
  std::set<std::string, std::less<>> whole;  ///< tokens that are no pieces: they are copied
  const char* after_whole = "";              ///< follows each of them
  bool strip = false;                        ///< removes white space at both ends
  bool replace_blanks = false;               ///< replaces the U+2581 of pieces that are not in the model
  bool clean_up_spaces = false;
};
std::unique_ptr<const TokenDecoder> sentencepiece_decoder(std::shared_ptr<const SentencePieceModel> model,
                                                          SentencePieceDecoding settings);

/// As train_sentencepiece, for a vocabulary with `ids_outside` ids that belong to no piece of the model. The
/// model has options.vocab_size - ids_outside pieces; errors give the size of the whole vocabulary.
std::string train_sentencepiece_model(const SentencePieceOptions& options, std::int64_t ids_outside,
                                      const SentenceSource& sentences, SentencePieceReport* report);

}  // namespace heed
