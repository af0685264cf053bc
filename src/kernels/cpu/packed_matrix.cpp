// Packing matrices, and rows of stored ones.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/packed_matrix.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/pack_panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void pack_panels(const Strided<T>& w, int64_t n, int64_t k, T* panels) {
  parallel_for((n + kNr - 1) / kNr, row_grain(kNr * k), [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      pack_panel(std::min(kNr, n - i * kNr), k, Strided<T>(w.data + i * kNr * w.row, w.row, w.column),
                 panels + i * kNr * k);
    }
  });
}

template <class T>
void rows_of(const Stored<T>& w, int64_t k, const int64_t* ids, int64_t count, float factor, float* y) {
  const bool packed = w.panels != nullptr;
  const int64_t step = packed ? kNr : w.strided.column;
  parallel_for(count, row_grain(k), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from =
          packed ? w.panels + ids[i] / kNr * kNr * k + ids[i] % kNr : w.strided.data + ids[i] * w.strided.row;
      float* to = y + i * k;
      if (step == 1) {
        for (int64_t l = 0; l < k; ++l) to[l] = factor * static_cast<float>(from[l]);
      } else {
        for (int64_t l = 0; l < k; ++l) to[l] = factor * static_cast<float>(from[l * step]);
      }
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(pack_panels);
HEED_EXPORT(rows_of);

std::shared_ptr<const PackedMatrix> pack(const StridedMatrix& w, std::int64_t n, std::int64_t k) {
  auto packed = std::make_shared<PackedMatrix>(w.dtype, n, k);
  dispatch_stored({w}, [&]<class T>(const Stored<T>& stored) {
    HEED_DISPATCH(pack_panels, T)(stored.strided, n, k, packed->panels<T>());
  });
  return packed;
}

void lookup_rows(const StoredMatrix& w, std::int64_t k, const std::int64_t* ids, std::int64_t count,
                 float factor, float* y) {
  dispatch_stored(w, [&]<class T>(const Stored<T>& stored) {
    HEED_DISPATCH(rows_of, T)(stored, k, ids, count, factor, y);
  });
}

}  // namespace heed::kernels
#endif
