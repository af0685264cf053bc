#include "text/sentencepiece_model.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <unordered_map>
#include <utility>

#include "files/input_file.h"
#include "heed/error.h"
#include "text/sentencepiece_file.h"
#include "text/sentencepiece_maps.h"

namespace heed {

void silence_sentencepiece() {
  // The library's public headers offer the log level only as a training option, so a training that fails for
  // lack of input sets it.
  static const bool done = [] {
    sentencepiece::SentencePieceTrainer::Train(
        std::unordered_map<std::string, std::string>{{"minloglevel", "3"}})
        .IgnoreError();
    return true;
  }();
  static_cast<void>(done);
}

SentencePieceModel::SentencePieceModel(std::string serialized, const std::string& where)
    : serialized_(std::move(serialized)),
      processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  silence_sentencepiece();
  const bool has_fields = check_character_maps(serialized_, where);
  bool loaded = false;
  try {
    loaded =
        has_fields && processor_->LoadFromSerializedProto(serialized_).ok() && processor_->GetPieceSize() > 0;
  } catch (const std::exception&) {  // thrown if its trie cannot be built: an empty piece
  }
  if (!loaded) refuse_sentencepiece_file(serialized_, where);
  const SentencePieceFile file = read_sentencepiece_file(serialized_, where);
  if (file.unigram) unigram_.emplace(file);
}

SentencePieceModel SentencePieceModel::load(const std::filesystem::path& path) {
  return SentencePieceModel(read_regular_file(path, file_limits::kTokenizer), path.string());
}

SentencePieceModel::~SentencePieceModel() = default;
SentencePieceModel::SentencePieceModel(SentencePieceModel&&) noexcept = default;
SentencePieceModel& SentencePieceModel::operator=(SentencePieceModel&&) noexcept = default;

void SentencePieceModel::encode(std::string_view text, PieceVisitor visit) const {
  if (unigram_) return unigram_->encode(text, visit);
  sentencepiece::ImmutableSentencePieceText pieces;
  const auto status = processor_->Encode(text, pieces.mutable_proto());
  if (!status.ok()) throw Error(fmt::format("SentencePiece: cannot tokenize the text: {}", status.message()));
  const int count = static_cast<int>(pieces.pieces_size());
  for (int i = 0; i < count; ++i) {
    const auto piece = pieces.pieces(i);
    visit(piece.piece(), static_cast<int>(piece.id()), piece.begin(), piece.end());
  }
}

std::string SentencePieceModel::decode(const std::vector<std::string_view>& pieces) const {
  std::string text;
  const auto status = processor_->Decode(pieces, &text);
  if (!status.ok()) throw Error(fmt::format("SentencePiece: cannot join the pieces: {}", status.message()));
  return text;
}

int SentencePieceModel::size() const { return processor_->GetPieceSize(); }
const std::string& SentencePieceModel::piece(int id) const { return processor_->IdToPiece(id); }
bool SentencePieceModel::is_unknown(int id) const { return processor_->IsUnknown(id); }
bool SentencePieceModel::is_control(int id) const { return processor_->IsControl(id); }

}  // namespace heed
