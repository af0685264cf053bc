// Which instruction sets the kernels are compiled for, and how a call reaches the best one the machine has.
// A kernel file includes this before Highway. Its vector code is in heed::kernels::HWY_NAMESPACE as
// templates on the element type, compiled once per target, exported with HEED_EXPORT(name) and called with
// HEED_DISPATCH(name, T)(...): one indirect call per operation.
#pragma once

// Each target costs compile time. On x86: AVX-512, AVX2 (2013 on), and Highway's portable fallback.
#if defined(__x86_64__) || defined(__i386__)
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_SCALAR | HWY_EMU128))
#endif
#include <hwy/targets.h>

#include <cstddef>

namespace heed::kernels::detail {
/// Index of the best target in the tables that HEED_EXPORT makes, of those that this file is compiled for.
static HWY_INLINE std::size_t target_index() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
  return chosen.GetIndex();
}
}  // namespace heed::kernels::detail

#define HEED_EXPORT(name)                                              \
  template <class T>                                                   \
  constexpr decltype(&HWY_STATIC_DISPATCH(name<T>)) name##_table[] = { \
      nullptr, HWY_CHOOSE_TARGET_LIST(name<T>), HWY_CHOOSE_FALLBACK(name<T>)}
#define HEED_DISPATCH(name, T) (name##_table<T>[::heed::kernels::detail::target_index()])
