#include "text/sentencepiece_file.h"

#include <fmt/format.h>

#include <cstring>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/protobuf_fields.h"

namespace heed {
namespace {

// The numbers of fields, and of kinds of pieces, in sentencepiece_model.proto.
constexpr std::uint32_t kPieces = 1, kNormalizer = 3, kCharsmap = 2, kText = 1, kScore = 2, kType = 3;
constexpr std::uint32_t kControl = 3, kUserDefined = 4;

SentencePieceFile::Piece read_piece(ProtobufFields fields, bool& damaged) {
  SentencePieceFile::Piece piece;
  while (const auto field = fields.next()) {
    if (field->number == kText && field->bytes) piece.text = *field->bytes;
    if (field->number == kScore) std::memcpy(&piece.score, &field->bits, sizeof piece.score);
    if (field->number == kType) {
      piece.control = field->bits == kControl;
      piece.user_defined = field->bits == kUserDefined;
    }
  }
  damaged = damaged || fields.damaged() || piece.text.empty() || first_invalid_utf8(piece.text);
  return piece;
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view serialized, const std::string& where) {
  SentencePieceFile file;
  bool damaged = false;
  ProtobufFields model(serialized);
  while (const auto field = model.next()) {
    if (!field->bytes) continue;
    if (field->number == kPieces) file.pieces.push_back(read_piece(ProtobufFields(*field->bytes), damaged));
    if (field->number != kNormalizer) continue;
    ProtobufFields normalizer(*field->bytes);
    while (const auto inner = normalizer.next()) {
      if (inner->number == kCharsmap && inner->bytes) file.charsmap = *inner->bytes;
    }
    damaged = damaged || normalizer.damaged();
  }
  if (damaged || model.damaged() || file.pieces.empty()) refuse_sentencepiece_file(serialized, where);
  return file;
}

void refuse_sentencepiece_file(std::string_view serialized, const std::string& where) {
  throw Error(
      fmt::format("{}: expected a SentencePiece model, got {} bytes that are none (truncated, damaged or "
                  "another kind of file)",
                  where, serialized.size()));
}

}  // namespace heed
