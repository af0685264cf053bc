// Embedding rows and the scatter of their gradients. The scatter is parallel over blocks of columns: every
// element of the table is added to by one thread, in the order of the ids.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/simd-inl.h"
#include "kernels/embedding.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

template <class T>
void embedding(const T* table, const RowLookup& rows, T factor, T* y) {
  const int64_t* ids = rows.ids;
  const int64_t d = rows.d;
  const Vec<T> f = broadcast(factor);
  parallel_for(rows.count, row_grain(d), [=](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      map_range<T>(
          0, d, y + i * d, [=](auto v) HWY_ATTR { return hn::Mul(v, f); }, table + ids[i] * d);
    }
  });
}

template <class T>
void embedding_backward(const T* dy, const RowLookup& rows, T factor, T* dtable, int64_t padding_index) {
  const int64_t* ids = rows.ids;
  const int64_t count = rows.count, d = rows.d;
  const Vec<T> f = broadcast(factor);
  constexpr int64_t kColumns = 64;  // whole cache lines
  parallel_for((d + kColumns - 1) / kColumns, row_grain(count * kColumns),
               [=](int64_t begin, int64_t end) HWY_ATTR {
                 const int64_t first = begin * kColumns, last = std::min(d, end * kColumns);
                 for (int64_t i = 0; i < count; ++i) {
                   if (ids[i] == padding_index) continue;
                   T* row = dtable + ids[i] * d;
                   map_range<T>(
                       first, last, row, [=](auto acc, auto g) HWY_ATTR { return hn::MulAdd(g, f, acc); },
                       static_cast<const T*>(row), dy + i * d);
                 }
               });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HEED_EXPORT(embedding);
HEED_EXPORT(embedding_backward);

std::int64_t first_outside(const std::int64_t* ids, std::int64_t count, std::int64_t limit,
                           std::int64_t allowed) {
  for (std::int64_t i = 0; i < count; ++i) {
    if ((ids[i] < 0 || ids[i] >= limit) && ids[i] != allowed) return i;
  }
  return -1;
}

template <class T>
void embedding(const T* table, const RowLookup& rows, T factor, T* y) {
  HEED_DISPATCH(embedding, T)(table, rows, factor, y);
}
template <class T>
void embedding_backward(const T* dy, const RowLookup& rows, T factor, T* dtable, std::int64_t padding_index) {
  HEED_DISPATCH(embedding_backward, T)(dy, rows, factor, dtable, padding_index);
}

#define HEED_INSTANTIATE(T)                                   \
  template void embedding(const T*, const RowLookup&, T, T*); \
  template void embedding_backward(const T*, const RowLookup&, T, T*, std::int64_t);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed::kernels
#endif
