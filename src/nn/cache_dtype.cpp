#include "heed/nn/cache_dtype.h"

#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/int8_rows.h"

namespace heed {

std::string_view name_of(CacheDType dtype) {
  switch (dtype) {
    case CacheDType::f32: return "f32";
    case CacheDType::bf16: return "bf16";
    case CacheDType::f16: return "f16";
    case CacheDType::int8: return "int8";
  }
  HEED_ASSERT(false, "unknown cache dtype");
}

std::optional<CacheDType> cache_dtype_from_name(std::string_view name) {
  for (const CacheDType dtype : kCacheDTypes) {
    if (name == name_of(dtype)) return dtype;
  }
  return std::nullopt;
}

std::int64_t cache_bytes(CacheDType dtype, std::int64_t d) {
  switch (dtype) {
    case CacheDType::f32: return 4 * d;
    case CacheDType::bf16:
    case CacheDType::f16: return 2 * d;
    case CacheDType::int8: return static_cast<std::int64_t>(sizeof(float)) + d;  // the scale
  }
  HEED_ASSERT(false, "unknown cache dtype");
}

Tensor to_cache(const Tensor& x, CacheDType dtype) {
  switch (dtype) {
    case CacheDType::f32: return x;
    case CacheDType::bf16: return x.to(DType::bf16);
    case CacheDType::f16: return x.to(DType::f16);
    case CacheDType::int8: return int8_rows(x);
  }
  HEED_ASSERT(false, "unknown cache dtype");
}

}  // namespace heed
