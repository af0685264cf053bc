// Blocked product: a thread owns blocks of C; for each it packs panels of B and runs the
// tile product on them. The order of additions depends on k alone.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_tiles.cpp"
#include "kernels/cpu/targets.h"

#include <hwy/foreach_target.h>  // the order of these blocks matters

#include "kernels/cpu/gemm_tiles.h"
#include "kernels/cpu/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

inline constexpr int64_t kHeight = 96, kWidth = 64, kDepth = 128;

/// panel[l, j] = op(b)[first_k + l, first_n + j], rows of kWidth.
template <class T>
HWY_INLINE void pack_panel(const detail::GemmTiles<T>& g, int64_t first_k, int64_t depth, int64_t first_n,
                           int64_t width, T* panel) {
  if (g.transpose_b) {
    pack_transposed<T>(width, depth, {g.b + first_n * g.ldb + first_k, g.ldb}, {panel, kWidth}, kWidth);
  } else {
    pack_rows<T>(depth, width, {g.b + first_k * g.ldb + first_n, g.ldb}, {panel, kWidth});
  }
}

template <class T>
HWY_INLINE void multiply_block(const detail::GemmTiles<T>& g, int64_t i, int64_t j, T* panel, T* block) {
  const int64_t height = std::min(kHeight, g.m - i), width = std::min(kWidth, g.n - j);
  for (int64_t l = 0; l < g.k; l += kDepth) {
    const int64_t depth = std::min(kDepth, g.k - l);
    pack_panel(g, l, depth, j, width, panel);
    const auto multiply = [&](auto columns, Left<T> a) {
      const Rows<const T> b{panel, kWidth};
      const Rows<T> c{block, kWidth};
      if (l == 0) {
        tile_multiply<Into::c, columns()>(height, width, depth, a, b, c);
      } else {
        tile_multiply<Into::sum, columns()>(height, width, depth, a, b, c);
      }
    };
    if (g.transpose_a) {
      multiply(std::true_type(), {g.a + l * g.lda + i, 1, g.lda});
    } else {
      multiply(std::false_type(), {g.a + i * g.lda + l, g.lda, 1});
    }
  }
  for (int64_t r = 0; r < height; ++r) {
    T* c = g.c + (i + r) * g.ldc + j;
    for (int64_t s = 0; s < width; ++s) {
      const T product = g.alpha * block[r * kWidth + s];
      c[s] = g.beta == 0 ? product : g.beta * c[s] + product;
    }
  }
}

template <class T>
void gemm_blocks(const detail::GemmTiles<T>& g) {
  const int64_t rows = (g.m + kHeight - 1) / kHeight, columns = (g.n + kWidth - 1) / kWidth;
  parallel_for(rows * columns, row_grain(kHeight * kWidth), [&](int64_t begin, int64_t end) HWY_ATTR {
    std::vector<T> panel(kDepth * kWidth), block(kHeight * kWidth);
    for (int64_t task = begin; task < end; ++task) {
      multiply_block(g, task / columns * kHeight, task % columns * kWidth, panel.data(), block.data());
    }
  });
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {
HEED_EXPORT(gemm_blocks);
template <class T>
void detail::gemm_tiles(const GemmTiles<T>& args) {
  HEED_DISPATCH(gemm_blocks, T)(args);
}
template void detail::gemm_tiles(const GemmTiles<float>&);
template void detail::gemm_tiles(const GemmTiles<double>&);
}  // namespace heed::kernels
#endif
