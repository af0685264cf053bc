// Strided copies. After merging axes the innermost destination axis is walked in rows; a row that is
// contiguous on both sides is a memcpy, and a transposition goes by square blocks so that both sides stay in
// cache. Nothing here computes, so the compiler's own code for the machine's baseline serves.
#include "kernels/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "heed/error.h"
#include "heed/threads.h"

namespace heed::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kBlock = 32;

/// Drops axes of size 1, orders axes by falling destination stride, and merges those that continue one
/// another.
StridedCopy normalize(const StridedCopy& shape) {
  std::array<int, kMaxRank> order{};
  int rank = 0;
  for (int axis = 0; axis < shape.rank; ++axis) {
    if (shape.sizes[axis] != 1) order[rank++] = axis;
  }
  std::stable_sort(order.begin(), order.begin() + rank, [&](int i, int j) {
    return std::abs(shape.dst_strides[i]) > std::abs(shape.dst_strides[j]);
  });
  StridedCopy merged;
  for (int i = 0; i < rank; ++i) {
    const std::int64_t size = shape.sizes[order[i]];
    const std::int64_t src = shape.src_strides[order[i]], dst = shape.dst_strides[order[i]];
    const int last = merged.rank - 1;
    if (last >= 0 && merged.src_strides[last] == src * size && merged.dst_strides[last] == dst * size) {
      merged.sizes[last] *= size;
      merged.src_strides[last] = src;
      merged.dst_strides[last] = dst;
    } else {
      merged.sizes[merged.rank] = size;
      merged.src_strides[merged.rank] = src;
      merged.dst_strides[merged.rank++] = dst;
    }
  }
  return merged;
}

/// Calls row(src_offset, dst_offset, number of the row) for every index of the first `outer` axes, in
/// parallel.
template <class Row>
void for_each_row(const StridedCopy& shape, int outer, std::int64_t row_elements, Row row) {
  std::int64_t rows = 1;
  for (int axis = 0; axis < outer; ++axis) rows *= shape.sizes[axis];
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(row_elements, 1));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      std::int64_t src = 0, dst = 0, rest = index;
      for (int axis = outer - 1; axis >= 0; --axis) {
        src += rest % shape.sizes[axis] * shape.src_strides[axis];
        dst += rest % shape.sizes[axis] * shape.dst_strides[axis];
        rest /= shape.sizes[axis];
      }
      row(src, dst, index);
    }
  });
}

template <class E>
void copy_row(const E* src, std::int64_t src_stride, E* dst, std::int64_t dst_stride, std::int64_t n) {
  if (src_stride == 1 && dst_stride == 1) {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(E));
  } else {
    for (std::int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

/// dst[i * dst_stride + j] = src[i + j * src_stride] for i < m, j < n.
template <class E>
void transpose_block(const E* src, std::int64_t src_stride, E* dst, std::int64_t dst_stride, std::int64_t m,
                     std::int64_t n) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) dst[i * dst_stride + j] = src[i + j * src_stride];
  }
}

template <class E>
void copy_elements(const E* src, E* dst, const StridedCopy& shape) {
  const int inner = shape.rank - 1;
  const std::int64_t n = shape.sizes[inner];
  int swap = inner - 1;
  while (swap >= 0 && shape.src_strides[swap] != 1) --swap;
  if (swap < 0 || shape.dst_strides[inner] != 1 || shape.src_strides[inner] == 1) {
    for_each_row(shape, inner, n, [&](std::int64_t from, std::int64_t to, std::int64_t) {
      copy_row(src + from, shape.src_strides[inner], dst + to, shape.dst_strides[inner], n);
    });
    return;
  }
  // The source runs along `swap`: that axis and the innermost form planes to transpose, cut into strips.
  StridedCopy outer = shape;
  const std::int64_t m = shape.sizes[swap], strips = (m + kBlock - 1) / kBlock;
  outer.sizes[swap] = strips;
  outer.src_strides[swap] *= kBlock;
  outer.dst_strides[swap] *= kBlock;
  std::int64_t inner_of_swap = 1;
  for (int axis = swap + 1; axis < inner; ++axis) inner_of_swap *= shape.sizes[axis];
  for_each_row(outer, inner, n * kBlock, [&](std::int64_t from, std::int64_t to, std::int64_t index) {
    const std::int64_t strip = index / inner_of_swap % strips;
    const std::int64_t height = std::min(kBlock, m - strip * kBlock);
    for (std::int64_t j = 0; j < n; j += kBlock) {
      transpose_block(src + from + j * shape.src_strides[inner], shape.src_strides[inner], dst + to + j,
                      shape.dst_strides[swap], height, std::min(kBlock, n - j));
    }
  });
}

template <class E>
void copy_as(const void* src, void* dst, const StridedCopy& shape) {
  copy_elements(static_cast<const E*>(src), static_cast<E*>(dst), shape);
}

/// The normalized shape with at least one axis; false if there is nothing to copy.
bool prepare(const StridedCopy& shape, StridedCopy& merged) {
  for (int axis = 0; axis < shape.rank; ++axis) {
    if (shape.sizes[axis] == 0) return false;
  }
  merged = normalize(shape);
  if (merged.rank == 0) {
    merged.sizes[0] = merged.src_strides[0] = merged.dst_strides[0] = 1;
    merged.rank = 1;
  }
  return true;
}

}  // namespace

void copy_strided(const void* src, void* dst, const StridedCopy& shape, std::size_t element_size) {
  StridedCopy merged;
  if (!prepare(shape, merged)) return;
  const int inner = merged.rank - 1;
  if (inner == 0 && merged.src_strides[0] == 1 && merged.dst_strides[0] == 1) {
    parallel_for(merged.sizes[0], 4 * kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(static_cast<char*>(dst) + static_cast<std::size_t>(begin) * element_size,
                  static_cast<const char*>(src) + static_cast<std::size_t>(begin) * element_size,
                  static_cast<std::size_t>(end - begin) * element_size);
    });
    return;
  }
  switch (element_size) {
    case 1: return copy_as<std::uint8_t>(src, dst, merged);
    case 2: return copy_as<std::uint16_t>(src, dst, merged);
    case 4: return copy_as<std::uint32_t>(src, dst, merged);
    case 8: return copy_as<std::uint64_t>(src, dst, merged);
    default: HEED_ASSERT(false, "element sizes are 1, 2, 4 or 8 bytes");
  }
}

void gather_rows(const void* src, const std::int64_t* ids, std::int64_t count, std::size_t bytes, void* dst) {
  const std::int64_t grain = 1 + 65536 / static_cast<std::int64_t>(bytes + 1);
  parallel_for(count, grain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::memcpy(static_cast<std::byte*>(dst) + static_cast<std::size_t>(i) * bytes,
                  static_cast<const std::byte*>(src) + static_cast<std::size_t>(ids[i]) * bytes, bytes);
    }
  });
}

template <class T>
void accumulate_strided(const T* src, T* dst, const StridedCopy& shape) {
  StridedCopy merged;
  if (!prepare(shape, merged)) return;
  const int inner = merged.rank - 1;
  const std::int64_t n = merged.sizes[inner];
  const std::int64_t src_stride = merged.src_strides[inner], dst_stride = merged.dst_strides[inner];
  for_each_row(merged, inner, n, [&](std::int64_t from, std::int64_t to, std::int64_t) {
    if (src_stride == 1 && dst_stride == 1) {
      for (std::int64_t i = 0; i < n; ++i) dst[to + i] += src[from + i];
    } else {
      for (std::int64_t i = 0; i < n; ++i) dst[to + i * dst_stride] += src[from + i * src_stride];
    }
  });
}
template void accumulate_strided(const float*, float*, const StridedCopy&);
template void accumulate_strided(const double*, double*, const StridedCopy&);

}  // namespace heed::kernels
