// Conversion between element types. The pairs of f32 with the 16-bit floats, which every checkpoint needs, go
// by vectors; the others by plain loops.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convert.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <type_traits>

#include "kernels/copy.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

/// Walks n elements by vectors of D, the last partial one through buffers.
template <class In, class Out, class Fn>
HWY_INLINE void convert_walk(const In* x, Out* y, int64_t n, Fn fn) {
  constexpr int64_t N = lanes<float>();
  parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) HWY_ATTR {
    int64_t i = begin;
    for (; i + N <= end; i += N) fn(x + i, y + i);
    if (i == end) return;
    In in[N] = {};
    Out out[N];
    std::memcpy(in, x + i, static_cast<std::size_t>(end - i) * sizeof(In));
    fn(in, out);
    std::memcpy(y + i, out, static_cast<std::size_t>(end - i) * sizeof(Out));
  });
}

template <class T>  // one type: HEED_EXPORT exports templates
void bf16_to_float(const std::uint16_t* x, T* y, int64_t n) {
  convert_walk(x, y, n, [](const std::uint16_t* in, T* out) HWY_ATTR {
    const hn::Rebind<std::uint16_t, Tag<T>> narrow;
    const hn::Rebind<std::uint32_t, Tag<T>> wide;
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, in)));
    store<T>(hn::BitCast(Tag<T>(), bits), out);
  });
}

template <class T>
void float_to_bf16(const T* x, std::uint16_t* y, int64_t n) {
  convert_walk(x, y, n, [](const T* in, std::uint16_t* out) HWY_ATTR {
    const hn::Rebind<std::int32_t, Tag<T>> wide;
    const hn::Rebind<std::uint32_t, Tag<T>> wide_unsigned;
    const hn::Rebind<std::uint16_t, Tag<T>> narrow;
    const auto bits = hn::BitCast(wide_unsigned, load(in));
    const auto lowest_kept = hn::And(hn::ShiftRight<16>(bits), hn::Set(wide_unsigned, 1));
    const auto rounded =
        hn::ShiftRight<16>(hn::Add(bits, hn::Add(lowest_kept, hn::Set(wide_unsigned, 0x7fffu))));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(wide_unsigned, 0x40u));
    const auto is_nan = hn::RebindMask(wide_unsigned, hn::IsNaN(load(in)));
    const auto kept = hn::IfThenElse(is_nan, quiet, rounded);
    hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(wide, kept)), narrow, out);
  });
}

template <class T>
void f16_to_float(const hwy::float16_t* x, T* y, int64_t n) {
  convert_walk(x, y, n, [](const hwy::float16_t* in, T* out) HWY_ATTR {
#if HWY_TARGET == HWY_SCALAR
    float16 half;
    std::memcpy(&half.bits, in, sizeof(half.bits));
    *out = static_cast<T>(half);
#else
    store<T>(hn::PromoteTo(Tag<T>(), hn::LoadU(hn::Rebind<hwy::float16_t, Tag<T>>(), in)), out);
#endif
  });
}

template <class T>
void float_to_f16(const T* x, hwy::float16_t* y, int64_t n) {
  convert_walk(x, y, n, [](const T* in, hwy::float16_t* out) HWY_ATTR {
#if HWY_TARGET == HWY_SCALAR  // Highway's own knows neither -0 nor infinity
    const float16 rounded(*in);
    std::memcpy(out, &rounded.bits, sizeof(rounded.bits));
#else
    const hn::Rebind<hwy::float16_t, Tag<T>> narrow;
    hn::StoreU(hn::DemoteTo(narrow, load(in)), narrow, out);
#endif
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(bf16_to_float);
HEED_EXPORT(float_to_bf16);
HEED_EXPORT(f16_to_float);
HEED_EXPORT(float_to_f16);

namespace {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

/// Toward zero, saturating; NaN gives 0.
template <class Dst>
Dst saturate(double value) {
  if (value != value) return 0;
  // As doubles these may round up to a value that does not fit, hence >=.
  if (value >= static_cast<double>(std::numeric_limits<Dst>::max())) return std::numeric_limits<Dst>::max();
  if (value <= static_cast<double>(std::numeric_limits<Dst>::min())) return std::numeric_limits<Dst>::min();
  return static_cast<Dst>(value);
}

template <class Dst, class Src>
Dst convert_one(Src value) {
  if constexpr (kIsHalf<Src>) {
    return convert_one<Dst>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<Dst, bool>) {
    return value != Src(0);
  } else if constexpr (kIsHalf<Dst>) {
    return Dst(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<Src> && std::is_integral_v<Dst>) {
    return saturate<Dst>(static_cast<double>(value));
  } else {
    return static_cast<Dst>(value);
  }
}

}  // namespace

template <class Src, class Dst>
void convert(const Src* src, Dst* dst, std::int64_t n) {
  if constexpr (std::is_same_v<Src, bfloat16> && std::is_same_v<Dst, float>) {
    HEED_DISPATCH(bf16_to_float, float)(reinterpret_cast<const std::uint16_t*>(src), dst, n);
  } else if constexpr (std::is_same_v<Src, float> && std::is_same_v<Dst, bfloat16>) {
    HEED_DISPATCH(float_to_bf16, float)(src, reinterpret_cast<std::uint16_t*>(dst), n);
  } else if constexpr (std::is_same_v<Src, float16> && std::is_same_v<Dst, float>) {
    HEED_DISPATCH(f16_to_float, float)(reinterpret_cast<const hwy::float16_t*>(src), dst, n);
  } else if constexpr (std::is_same_v<Src, float> && std::is_same_v<Dst, float16>) {
    HEED_DISPATCH(float_to_f16, float)(src, reinterpret_cast<hwy::float16_t*>(dst), n);
  } else {
    parallel_for(n, 16384, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) dst[i] = convert_one<Dst>(src[i]);
    });
  }
}

void convert(DType from, const void* src, DType to, void* dst, std::int64_t n) {
  dispatch_all(from, [&]<class Src>() {
    dispatch_all(to, [&]<class Dst>() { convert(static_cast<const Src*>(src), static_cast<Dst*>(dst), n); });
  });
}

#define HEED_FROM(Src)                                            \
  template void convert(const Src*, double*, std::int64_t);       \
  template void convert(const Src*, float*, std::int64_t);        \
  template void convert(const Src*, bfloat16*, std::int64_t);     \
  template void convert(const Src*, float16*, std::int64_t);      \
  template void convert(const Src*, std::int64_t*, std::int64_t); \
  template void convert(const Src*, std::int32_t*, std::int64_t); \
  template void convert(const Src*, std::uint8_t*, std::int64_t); \
  template void convert(const Src*, bool*, std::int64_t);
HEED_FROM(double)
HEED_FROM(float)
HEED_FROM(bfloat16)
HEED_FROM(float16)
HEED_FROM(std::int64_t)
HEED_FROM(std::int32_t)
HEED_FROM(std::uint8_t)
HEED_FROM(bool)

}  // namespace heed::kernels
#endif
