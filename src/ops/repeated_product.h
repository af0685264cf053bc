// Products of many matrices with one: what recurrences and models that run step by step need.
#pragma once

#include <memory>

#include "heed/tensor.h"
#include "kernels/gemm.h"
#include "kernels/invariant_gemm.h"

namespace heed {

/// Which side of y = x op(W) the stored matrix W [out, in] is used on: op(W) = W^T, or W itself (the gradient
/// of x).
enum class ProductOf { transpose, itself };

/// x W^T or x W for one W and `times` matrices x. In f32, W is packed once, unless that is not worth it.
template <class T>
class RepeatedProduct;

template <>
class RepeatedProduct<float> {
 public:
  /// w [out, in] f32, bf16 or f16, contiguous, must outlive this; `packed` holds its numbers for x W^T where
  /// it is not null.
  RepeatedProduct(const Tensor& w, ProductOf kind, std::int64_t times,
                  const kernels::PackedMatrix* packed = nullptr)
      : n_(w.size(kind == ProductOf::transpose ? 0 : 1)), k_(w.size(kind == ProductOf::transpose ? 1 : 0)) {
    w_.packed = packed;
    if (packed != nullptr) return;
    w_.strided = kernels::dense_matrix(w.raw_data(), w.dtype(), n_, k_, kind == ProductOf::itself);
    if (times < 2) return;
    own_ = kernels::pack(w_.strided, n_, k_);
    w_.packed = own_.get();
  }
  /// y = x op(W) + bias, or y += that; x [m, k] and y [m, n] have rows ldx and ldy apart; bias may be null.
  void operator()(std::int64_t m, const float* x, std::int64_t ldx, const float* bias, float* y,
                  std::int64_t ldy, bool accumulate) const {
    kernels::InvariantGemm args{.m = m, .n = n_, .k = k_, .y = y, .ldy = ldy, .accumulate = accumulate};
    args.x = {x, DType::f32, ldx, 1};
    args.w = w_;
    args.epilogue.bias = bias;
    kernels::invariant_gemm(args);
  }

 private:
  std::int64_t n_, k_;
  kernels::StoredMatrix w_;
  std::shared_ptr<const kernels::PackedMatrix> own_;
};

template <>
class RepeatedProduct<double> {
 public:
  RepeatedProduct(const Tensor& w, ProductOf kind, std::int64_t, const kernels::PackedMatrix* = nullptr)
      : w_(w), transposed_(kind == ProductOf::transpose) {}
  void operator()(std::int64_t m, const double* x, std::int64_t ldx, const double* bias, double* y,
                  std::int64_t ldy, bool accumulate) const {
    const std::int64_t n = w_.size(transposed_ ? 0 : 1), k = w_.size(transposed_ ? 1 : 0);
    kernels::gemm<double>(false, transposed_, m, n, k, 1.0, x, ldx, w_.data<double>(), w_.size(1),
                          accumulate ? 1.0 : 0.0, y, ldy);
    for (std::int64_t i = 0; bias != nullptr && i < m; ++i) kernels::add_bias(y + i * ldy, bias, 1, n);
  }

 private:
  Tensor w_;
  bool transposed_;
};

}  // namespace heed
