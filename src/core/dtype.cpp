// Names and sizes of dtypes, and float16 to and from float.
#include "heed/dtype.h"

#include <string>

namespace heed {

float16::float16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t magnitude = u & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude >= 0x7f800000u) {
    half = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else if (magnitude >= 0x477ff000u) {  // rounds to more than the largest f16
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // subnormal: let float addition do the rounding
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  } else {
    half = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | half);
}

float16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1.0p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::u8:
    case DType::boolean: return 1;
  }
  return 0;
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::boolean: return "bool";
  }
  return "unknown";
}

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

void throw_unsupported_dtype(const char* where, DType dtype, const char* expected) {
  throw Error(std::string(where) + ": expected " + expected + ", got " + std::string(name_of(dtype)));
}

}  // namespace heed
