// SentencePieceModel: a loaded SentencePiece model and the operations of the library that heed uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/threads.h"
#include "text/sentencepiece_unigram.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace heed {

/// Stops SentencePiece from logging to stderr.
void silence_sentencepiece();

class SentencePieceModel {
 public:
  /// Parses the bytes of a .model or .spm file. Throws Error, starting with `where`, if they are malformed.
  SentencePieceModel(std::string serialized, const std::string& where);
  static SentencePieceModel load(const std::filesystem::path& path);
  ~SentencePieceModel();
  SentencePieceModel(SentencePieceModel&&) noexcept;
  SentencePieceModel& operator=(SentencePieceModel&&) noexcept;

  /// Receives a piece, its id, and the range of bytes of the text that it covers. The piece is valid during
  /// the call only; an unknown piece is the (normalized) text itself.
  using PieceVisitor = FunctionRef<void(std::string_view piece, int id, std::size_t begin, std::size_t end)>;
  void encode(std::string_view text, PieceVisitor visit) const;
  /// See SentencePieceUnigram::safe_end. For other kinds of models, which need the whole text, returns its
  /// size.
  std::size_t safe_end(std::string_view text, std::size_t from) const {
    return unigram_ ? unigram_->safe_end(text, from) : text.size();
  }
  /// Returns the text of pieces. Pieces that are not in the model are copied.
  std::string decode(const std::vector<std::string_view>& pieces) const;

  int size() const;
  const std::string& piece(int id) const;
  bool is_unknown(int id) const;
  bool is_control(int id) const;
  /// The bytes that this was made from.
  const std::string& serialized() const { return serialized_; }

 private:
  std::string serialized_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::optional<SentencePieceUnigram> unigram_;  // for unigram models: tokenizes instead of the library
};

}  // namespace heed
