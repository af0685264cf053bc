// Numbers as the page reads them exactly: f32, little-endian, in base64.
#pragma once

#include <bit>
#include <string>
#include <string_view>

#include "core/base64.h"
#include "heed/tensor.h"

namespace heed::explore {

static_assert(std::endian::native == std::endian::little);

/// Row-major numbers of a value, whatever its dtype.
inline std::string row_bytes(const Tensor& x) {
  const Tensor plain = x.to(DType::f32).contiguous();
  const auto size = static_cast<std::size_t>(plain.numel()) * sizeof(float);
  return encode_base64(std::string_view(reinterpret_cast<const char*>(plain.raw_data()), size));
}

}  // namespace heed::explore
