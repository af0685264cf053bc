// ProtobufFields: reads a message of Protocol Buffers, the format of SentencePiece models, field by field.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace heed {

/// Reads one field after another. Supports wire types 0, 1, 2 and 5, the only ones in such models.
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

}  // namespace heed
