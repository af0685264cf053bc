// Element types: the names used in files and messages, their sizes, and the two 16-bit floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "heed/error.h"
#include "heed/export.h"

namespace HEED_API heed {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8, boolean };

/// bfloat16, the upper half of an f32: 8 bits of exponent, 7 of fraction. Rounds to nearest even.
struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value) {
    auto u = std::bit_cast<std::uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);  // keep NaN a NaN
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE 754 binary16. Rounds to nearest even, overflows to infinity.
struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

/// Bytes of one element.
std::size_t size_of(DType dtype);
/// The name used in messages and recipes: f64 f32 bf16 f16 i64 i32 u8 bool.
std::string_view name_of(DType dtype);
bool is_floating(DType dtype);

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, float16>) return DType::f16;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
}

[[noreturn]] void throw_unsupported_dtype(const char* where, DType dtype, const char* expected);

/// Calls `fn.template operator()<T>()` for f32 or f64; throws an Error naming `where` for any other type.
template <class Fn>
decltype(auto) dispatch_float(const char* where, DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f32: return fn.template operator()<float>();
    case DType::f64: return fn.template operator()<double>();
    default: throw_unsupported_dtype(where, dtype, "f32 or f64 (cast it first)");
  }
}

/// Calls `fn.template operator()<T>()` for every element type.
template <class Fn>
decltype(auto) dispatch_all(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f64: return fn.template operator()<double>();
    case DType::f32: return fn.template operator()<float>();
    case DType::bf16: return fn.template operator()<bfloat16>();
    case DType::f16: return fn.template operator()<float16>();
    case DType::i64: return fn.template operator()<std::int64_t>();
    case DType::i32: return fn.template operator()<std::int32_t>();
    case DType::u8: return fn.template operator()<std::uint8_t>();
    case DType::boolean: return fn.template operator()<bool>();
  }
  throw_unsupported_dtype("dtype", dtype, "a known element type");
}

}  // namespace heed
