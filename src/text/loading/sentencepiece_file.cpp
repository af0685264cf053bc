// Reads and writes the protocol buffer of a SentencePiece model.
#include "text/loading/sentencepiece_file.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <unordered_set>

#include "core/utf8.h"
#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/unicode/charsmap.h"

namespace heed {
namespace {

/// Reads a message of Protocol Buffers, the format of such files, one field after another. Supports wire
/// types 0, 1, 2 and 5, the only ones in them.
class ProtobufFields {
 public:
  explicit ProtobufFields(std::string_view bytes) : bytes_(bytes) {}

  /// A field's number and its value: bytes, or the bits of a number of at most 32 bits. next() returns
  /// nullopt at the end, or if the message is damaged.
  struct Field {
    std::uint32_t number = 0;
    std::optional<std::string_view> bytes;
    std::uint32_t bits = 0;
  };
  std::optional<Field> next() {
    if (bytes_.empty()) return std::nullopt;
    const auto tag = static_cast<std::uint32_t>(varint());
    Field field{tag >> 3, std::nullopt};
    switch (tag & 7) {
      case 0: field.bits = static_cast<std::uint32_t>(varint()); break;
      case 1: take(8); break;
      case 2: field.bytes = take(varint()); break;
      case 5: {
        const std::string_view four = take(4);
        std::memcpy(&field.bits, four.data(), four.size());
        break;
      }
      default: damaged_ = true;
    }
    return damaged_ ? std::nullopt : std::optional(field);
  }
  bool damaged() const { return damaged_; }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (byte.empty()) return 0;
      const auto bits = static_cast<unsigned char>(byte[0]);
      value |= std::uint64_t{bits & 0x7Fu} << shift;
      if (bits < 0x80) return value;
    }
    damaged_ = true;
    return 0;
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) {
      damaged_ = true;
      count = 0;
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  bool damaged_ = false;
};

// Field numbers of sentencepiece_model.proto.
constexpr std::uint32_t kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
constexpr std::uint32_t kText = 1, kScore = 2, kKind = 3;  // of a piece
constexpr std::uint32_t kModelType = 3, kSuffix = 24, kByteFallback = 35;
constexpr std::uint32_t kCharsmap = 2, kDummyPrefix = 3, kExtraWhitespaces = 4, kEscapeWhitespaces = 5;

SentencePieceFile::Piece read_piece(ProtobufFields fields, bool& damaged) {
  SentencePieceFile::Piece piece;
  while (const auto field = fields.next()) {
    if (field->number == kText && field->bytes) piece.text = *field->bytes;
    if (field->number == kScore) std::memcpy(&piece.score, &field->bits, sizeof piece.score);
    if (field->number == kKind) {
      damaged = damaged || field->bits < 1 || field->bits > 6;
      piece.kind = static_cast<SentencePieceFile::Kind>(field->bits);
    }
  }
  damaged = damaged || fields.damaged() || piece.text.empty() || first_invalid_utf8(piece.text);
  return piece;
}

// Returns false if the message is damaged.
bool read_trainer(ProtobufFields fields, SentencePieceFile& file) {
  while (const auto field = fields.next()) {
    if (field->number == kModelType) file.unigram = field->bits == 1;
    if (field->number == kSuffix) file.whitespace_as_suffix = field->bits != 0;
    if (field->number == kByteFallback) file.byte_fallback = field->bits != 0;
  }
  return !fields.damaged();
}

bool read_normalizer(ProtobufFields fields, SentencePieceFile& file) {
  while (const auto field = fields.next()) {
    if (field->number == kCharsmap && field->bytes) file.charsmap = *field->bytes;
    if (field->number == kDummyPrefix) file.add_dummy_prefix = field->bits != 0;
    if (field->number == kExtraWhitespaces) file.remove_extra_whitespaces = field->bits != 0;
    if (field->number == kEscapeWhitespaces) file.escape_whitespaces = field->bits != 0;
  }
  return !fields.damaged();
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view serialized, const std::string& where) {
  SentencePieceFile file;
  bool damaged = false;
  ProtobufFields model(serialized);
  while (const auto field = model.next()) {
    if (!field->bytes) continue;
    if (field->number == kPieces) file.pieces.push_back(read_piece(ProtobufFields(*field->bytes), damaged));
    if (field->number == kTrainer) damaged = !read_trainer(ProtobufFields(*field->bytes), file) || damaged;
    if (field->number == kNormalizer)
      damaged = !read_normalizer(ProtobufFields(*field->bytes), file) || damaged;
  }
  if (damaged || model.damaged() || file.pieces.empty()) refuse_sentencepiece_file(serialized, where);
  return file;
}

std::vector<std::pair<std::string_view, std::string_view>> piece_merges(const SentencePieceFile& file,
                                                                        std::size_t first,
                                                                        const std::string& where) {
  constexpr std::size_t kLongest = 1024;  // all places at which a piece could be split are tried
  std::unordered_set<std::string_view> known;
  for (std::size_t i = first; i < file.pieces.size(); ++i) known.insert(file.pieces[i].text);
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  for (std::size_t i = first; i < file.pieces.size(); ++i) {
    const std::string_view piece = file.pieces[i].text;
    if (piece.size() > kLongest)
      throw Error(fmt::format("{}: expected pieces of at most {} bytes, got one of {}", where, kLongest,
                              piece.size()));
    for (std::size_t at = utf8_length(piece[0]); at < piece.size(); at += utf8_length(piece[at])) {
      const std::string_view left = piece.substr(0, at), right = piece.substr(at);
      if (known.contains(left) && known.contains(right)) merges.emplace_back(left, right);
    }
  }
  return merges;
}

bool check_character_maps(std::string_view serialized, const std::string& where) {
  ProtobufFields model(serialized);
  while (const auto field = model.next()) {
    if ((field->number != kNormalizer && field->number != kDenormalizer) || !field->bytes) continue;
    ProtobufFields normalizer(*field->bytes);
    while (const auto inner = normalizer.next()) {
      if (inner->number != kCharsmap || !inner->bytes || inner->bytes->empty()) continue;
      const auto map = Charsmap::parse(*inner->bytes);
      if (map && map->is_safe()) continue;
      throw Error(fmt::format(
          "{}: {}.precompiled_charsmap: expected a character map that stays within its bounds and "
          "replaces by at most {} bytes, got another (get the file again from where it comes from)",
          where, field->number == kNormalizer ? "normalizer_spec" : "denormalizer_spec",
          Charsmap::kLongestReplacement));
    }
    if (normalizer.damaged()) return false;
  }
  return !model.damaged();
}

void refuse_sentencepiece_file(std::string_view serialized, const std::string& where) {
  throw Error(
      fmt::format("{}: expected a SentencePiece model, got {} other bytes (truncated, damaged or another "
                  "kind of file)",
                  where, serialized.size()));
}

}  // namespace heed
