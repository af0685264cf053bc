// What readers and writers of GGUF files share: the letters they begin with, and the types of their values.
#pragma once

#include <cstdint>
#include <string_view>

namespace heed::gguf_format {

inline constexpr std::string_view kMagic = "GGUF";

/// The types of values, as the file numbers them.
enum Type : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
  kTypes
};

}  // namespace heed::gguf_format
