// SentencePieceModel: a loaded SentencePiece model, and what heed asks of the library behind it.
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

/// Keeps SentencePiece, which logs to stderr on its own account, silent from now on.
void silence_sentencepiece();

class SentencePieceModel {
 public:
  /// Takes the bytes of a .model or .spm file. Throws Error, starting with `where`, when they are none.
  SentencePieceModel(std::string serialized, const std::string& where);
  static SentencePieceModel load(const std::filesystem::path& path);
  ~SentencePieceModel();
  SentencePieceModel(SentencePieceModel&&) noexcept;
  SentencePieceModel& operator=(SentencePieceModel&&) noexcept;

  /// A piece, its id, and the bytes of the text it covers. The piece is valid during the call only; an
  /// unknown one is the (normalised) text itself.
  using PieceVisitor = FunctionRef<void(std::string_view piece, int id, std::size_t begin, std::size_t end)>;
  void encode(std::string_view text, PieceVisitor visit) const;
  /// See SentencePieceUnigram::safe_end; the text's size for models of other kinds, which look at all of it.
  std::size_t safe_end(std::string_view text, std::size_t from) const {
    return unigram_ ? unigram_->safe_end(text, from) : text.size();
  }
  /// The text of pieces; those that are not in the model stand for themselves.
  std::string decode(const std::vector<std::string_view>& pieces) const;

  int size() const;
  const std::string& piece(int id) const;
  bool is_unknown(int id) const;
  bool is_control(int id) const;
  /// The bytes it was made from.
  const std::string& serialized() const { return serialized_; }

 private:
  std::string serialized_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::optional<SentencePieceUnigram> unigram_;  // cuts in its place where the model is of that kind
};

}  // namespace heed
