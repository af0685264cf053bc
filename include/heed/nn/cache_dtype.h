// The dtypes of the key-value cache of a decoding.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// bf16 and f16: each number rounded to the nearest, ties to even; f16 overflows to infinity beyond 65,504.
/// int8: each key and value of d numbers as int8_rows() (heed/ops/attention.h) of 4 + d bytes. Attention
/// computes with the stored numbers, in f32.
enum class CacheDType : std::uint8_t { f32, bf16, f16, int8 };

inline constexpr std::array kCacheDTypes{CacheDType::f32, CacheDType::bf16, CacheDType::f16,
                                         CacheDType::int8};
/// For messages.
inline constexpr const char* kCacheDTypeNames = "f32, bf16, f16 or int8";

std::string_view name_of(CacheDType dtype);
std::optional<CacheDType> cache_dtype_from_name(std::string_view name);

/// Bytes of a key or value of d numbers.
std::int64_t cache_bytes(CacheDType dtype, std::int64_t d);

/// Keys or values [..., d] as they are stored: x itself (f32), bf16 or f16 [..., d], or u8 [..., 4 + d].
Tensor to_cache(const Tensor& x, CacheDType dtype);

}  // namespace heed
