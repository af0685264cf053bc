// Products of matrices and of batches of them.
#include "heed/ops/matmul.h"

#include "heed/autograd.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "kernels/gemm.h"
#include "ops/weight_product.h"

namespace heed {
namespace {

// A tensor as gemm takes it: dense in memory, perhaps with its last two axes stored the other way round.
struct Operand {
  Tensor dense;
  bool transposed = false;
  /// One matrix [rows, columns] of it.
  template <class T>
  kernels::StridedMatrix matrix(std::int64_t rows, std::int64_t columns) const {
    return kernels::dense_matrix(dense.data<T>(), dense.dtype(), rows, columns, transposed);
  }
};

Operand operand(const Tensor& x) {
  if (x.is_contiguous()) return {x, false};
  const Tensor swapped = transpose(x, -1, -2);
  if (swapped.is_contiguous()) return {swapped, true};
  return {x.contiguous(), false};
}

Shape leading(const Shape& shape) {
  return Shape(std::span<const std::int64_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

Shape with_matrix(Shape lead, std::int64_t rows, std::int64_t columns) {
  lead.push_back(rows);
  lead.push_back(columns);
  return lead;
}

Tensor product(const Tensor& a, const Tensor& b, kernels::Precision precision) {
  const std::int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const Shape lead = broadcast_shapes("matmul", leading(a.shape()), leading(b.shape()));
  const bool share_b = b.rank() == 2;
  const Operand x = operand(broadcast_to(a, with_matrix(lead, m, k)));
  const Operand y = operand(share_b ? b : broadcast_to(b, with_matrix(lead, k, n)));
  Tensor result = Tensor::empty(with_matrix(lead, m, n), a.dtype());
  kernels::GemmBatch batch{lead.numel(), m * k, share_b ? 0 : k * n, m * n};
  std::int64_t rows = m;
  if (share_b && !x.transposed) {  // one tall product
    rows = m * batch.count;
    batch.count = 1;
  }
  dispatch_float("matmul", a.dtype(), [&]<class T>() {
    kernels::gemm_batched<T>(batch, {.m = rows,
                                     .n = n,
                                     .k = k,
                                     .a = x.matrix<T>(m, k),
                                     .b = y.matrix<T>(k, n),
                                     .c = result.data<T>(),
                                     .ldc = n,
                                     .precision = precision});
  });
  return result;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() < 2 || b.rank() < 2 || a.size(-1) != b.size(-2) || a.dtype() != b.dtype()) {
    throw Error("matmul: expected [..., M, K] and [..., K, N] of one type, got " + a.str() + " and " +
                b.str());
  }
  const bool recording = needs_gradient({a, b});
  const kernels::Precision precision = recording ? recording_precision() : kernels::Precision::exact;
  Tensor y = product(a.detach(), b.detach(), precision);
  if (recording) {
    const bool needs_a = a.requires_grad(), needs_b = b.requires_grad();
    record(y, "matmul", {a, b},
           [a = a.detach(), b = b.detach(), needs_a, needs_b, precision](const Tensor& dy) {
             const auto da = [&] { return product(dy, transpose(b, -1, -2), precision); };
             const auto db = [&] { return product(transpose(a, -1, -2), dy, precision); };
             return std::vector<Tensor>{needs_a ? sum_to(da(), a.shape()) : Tensor(),
                                        needs_b ? sum_to(db(), b.shape()) : Tensor()};
           });
  }
  return y;
}

}  // namespace heed
