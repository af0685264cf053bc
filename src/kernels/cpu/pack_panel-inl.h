// Packing one panel of a matrix (kernels/cpu/packed_matrix.h): for pack, and for products that pack on the
// way.
#if defined(HEED_KERNELS_PACK_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PACK_PANEL_INL_H_
#undef HEED_KERNELS_PACK_PANEL_INL_H_
#else
#define HEED_KERNELS_PACK_PANEL_INL_H_
#endif

#include <type_traits>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kRun = 16;  // steps along k that share a cache line of each row

/// Packs columns [0, width) of one panel, width <= 32; the rest become zero.
template <class T>
HWY_INLINE void pack_panel(int64_t width, int64_t k, Strided<T> w, T* panel) {
  if constexpr (std::is_same_v<T, float>) {
    if (w.row != 1) return pack_transposed<float>(width, k, {w.data, w.row}, {panel, kNr}, kNr);
    if (width == kNr) {
      for (int64_t l = 0; l < k; ++l) {
        for (int64_t j = 0; j < kNr; j += lanes<float>())
          store<float>(load(w.data + l * w.column + j), panel + l * kNr + j);
      }
      return;
    }
  }
  if (width < kNr) std::fill(panel, panel + k * kNr, T());
  if (w.row == 1) {
    for (int64_t l = 0; l < k; ++l)
      std::copy(w.data + l * w.column, w.data + l * w.column + width, panel + l * kNr);
    return;
  }
  for (int64_t l = 0; l < k; l += kRun) {
    const int64_t depth = std::min(kRun, k - l);
    for (int64_t j = 0; j < width; ++j) {
      const T* from = w.data + j * w.row + l * w.column;
      T* to = panel + l * kNr + j;
      for (int64_t r = 0; r < depth; ++r) to[r * kNr] = from[r * w.column];
    }
  }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
