// The product of bf16 operands on processors without instructions for it: the operands are rounded, and
// multiplied in f32, where the product of two bf16 numbers is exact.
#include "kernels/bf16_gemm.h"

#include <vector>

#include "heed/dtype.h"
#include "heed/threads.h"
#include "kernels/convert.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/invariant_gemm.h"

namespace heed::kernels {
namespace {

// Whole lines of memory of a matrix, rounded.
std::vector<bfloat16> rounded(const float* data, std::int64_t rows, std::int64_t columns, std::int64_t row,
                              std::int64_t column) {
  const std::int64_t lines = column == 1 ? rows : columns, length = column == 1 ? columns : rows;
  const std::int64_t distance = column == 1 ? row : column;
  std::vector<bfloat16> numbers(static_cast<std::size_t>(lines * length));
  parallel_for(lines, 1 + (std::int64_t{1} << 14) / (length + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      convert(data + i * distance, numbers.data() + i * length, length);
  });
  return numbers;
}

}  // namespace

void detail::bf16_gemm_rounded(const Bf16Gemm& args) {
  const std::vector<bfloat16> x = rounded(args.x, args.m, args.k, args.x_row, args.x_column);
  std::vector<bfloat16> w;
  if (args.w_dtype == DType::f32)
    w = rounded(static_cast<const float*>(args.w), args.n, args.k, args.w_row, args.w_column);
  std::vector<float> wide(x.size());
  convert(x.data(), wide.data(), static_cast<std::int64_t>(x.size()));
  InvariantGemm product{.m = args.m, .n = args.n, .k = args.k};
  product.x = dense_matrix(wide.data(), DType::f32, args.m, args.k, args.x_column != 1);
  product.w.strided = args.w_dtype == DType::f32
                          ? dense_matrix(w.data(), DType::bf16, args.n, args.k, args.w_column != 1)
                          : StridedMatrix{args.w, args.w_dtype, args.w_row, args.w_column};
  product.y = args.y;
  product.ldy = args.ldy;
  product.accumulate = args.accumulate;
  invariant_gemm(product);
}

void bf16_gemm(const Bf16Gemm& args) {
  if (bf16_gemm_is_fast()) {
    detail::bf16_gemm_amx(args);
  } else {
    detail::bf16_gemm_rounded(args);
  }
}

}  // namespace heed::kernels
