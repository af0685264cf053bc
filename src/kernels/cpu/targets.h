// Which instruction sets the kernels are compiled for, and how a call reaches the best one the machine has.
// A kernel file includes this before Highway. Its vector code is in heed::kernels::HWY_NAMESPACE as
// templates on the element type, compiled once per target, exported with HEED_EXPORT(name) and called with
// HEED_DISPATCH(name, T)(...): one indirect call per operation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heed::kernels {

// What HEED_TARGET leaves of the processor's instruction sets (kernels/machine.h).

/// Instructions for products of bytes, better ones last: those of the target (maddubs; long products of
/// NEON); four signed bytes (ARM's sdot); four unsigned by signed bytes (VNNI's vpdpbusd, ARM's usdot); the
/// latter and, for many rows, AMX's tiles.
enum class ByteProducts : std::uint8_t { base, signed_fours, fours, tiles };

namespace detail {

/// Highway's targets, as bits. Throws Error as target_name() does.
std::int64_t allowed_targets();
/// Whether the processor has AMX's tiles, for products of bytes and of bf16, the system lets this process use
/// them, and HEED_TARGET does.
bool has_amx();

}  // namespace detail
}  // namespace heed::kernels

// Each target costs compile time. On x86: AVX-512, AVX2 (2013 on), and Highway's portable fallback; on ARM:
// NEON, which every processor of 64 bits has. Vectors whose length is unknown (SVE) have no place in arrays.
#if defined(__x86_64__) || defined(__i386__)
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_SCALAR | HWY_EMU128))
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_SCALAR | HWY_EMU128))
#endif
#include <hwy/targets.h>

namespace heed::kernels::detail {
/// Index of the best target in the tables that HEED_EXPORT makes, of those that this file is compiled for.
static HWY_INLINE std::size_t target_index() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(allowed_targets());
  return chosen.GetIndex();
}
}  // namespace heed::kernels::detail

#define HEED_EXPORT(name)                                              \
  template <class T>                                                   \
  constexpr decltype(&HWY_STATIC_DISPATCH(name<T>)) name##_table[] = { \
      nullptr, HWY_CHOOSE_TARGET_LIST(name<T>), HWY_CHOOSE_FALLBACK(name<T>)}
#define HEED_DISPATCH(name, T) (name##_table<T>[::heed::kernels::detail::target_index()])
