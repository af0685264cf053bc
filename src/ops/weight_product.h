// Products and lookups with a weight in the form in which it is stored: as a tensor, or packed
// (heed/nn/weight.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/ops/matmul.h"
#include "heed/ops/recurrent.h"
#include "kernels/blocks.h"
#include "kernels/gemm.h"

namespace heed {

/// The precision of products that record a gradient, and of those of their backward functions: bf16 while a
/// MixedPrecision exists on this thread.
kernels::Precision recording_precision();

/// Whether products of f32 take the numbers of a weight as they are, without a copy in f32.
inline bool is_read_in_place(const Tensor& weight, DType dtype) {
  return weight.dtype() == dtype || (weight.dtype() == DType::bf16 && dtype == DType::f32);
}

/// A contiguous tensor of two axes as kernels take it.
inline kernels::StridedMatrix matrix_of(const Tensor& x) {
  return kernels::dense_matrix(x.raw_data(), x.dtype(), x.size(0), x.size(1));
}

/// The numbers of a weight, packed for products and lookups.
/// Threads: several may use one at once.
class PackedWeight {
 public:
  /// From a contiguous matrix of f32, bf16 or f16, [out, in] or [in, out]. Lazy data stay lazy, and blocks of
  /// a few bits stay such.
  PackedWeight(const Tensor& matrix, WeightLayout layout);
  WeightLayout layout() const { return layout_; }
  const kernels::PackedMatrix* matrix() const { return matrix_.get(); }
  bool reorders_columns() const { return !columns_.empty(); }
  /// x [..., in], f32 and contiguous, with its columns in the order of those of the packed matrix, and back.
  Tensor packed_columns(const Tensor& x) const;
  Tensor own_columns(const Tensor& x) const;
  /// Of a quantized weight: its numbers, f32 [out, in], a copy.
  Tensor dequantized() const;

 private:
  std::shared_ptr<const kernels::PackedMatrix> matrix_;
  std::int64_t out_, in_;
  std::vector<std::int64_t> columns_;  // which column of the weight each packed one is; empty: the same
  WeightLayout layout_;
};

/// A linear map of an x in f32, without gradient. `packed` holds the numbers of the weight where it is not
/// null; else they are those of the weight itself. int8: x is rounded where `packed` has integers
/// (kernels::InvariantGemm).
struct StoredLinear {
  Tensor weight;
  const PackedWeight* packed = nullptr;
  Tensor bias = {};
  Activation activation = Activation::none;
  WeightLayout layout = WeightLayout::out_in;
  bool int8 = false;
};
/// linear() by each of the maps: the threads share all of them at once. Throws Error as linear() does.
std::vector<Tensor> stored_linears(const Tensor& x, const std::vector<StoredLinear>& maps);
/// second(first(x)), the same bits: where both round to int8, what lies between is not stored.
Tensor stored_chain(const Tensor& x, const StoredLinear& first, const StoredLinear& second);

/// linear() in f32 with a quantized weight, which is not trained and stays packed: gradients go to x and
/// bias.
Tensor frozen_linear(const Tensor& x, const Tensor& weight, std::shared_ptr<const PackedWeight> packed,
                     const Tensor& bias, Activation activation, WeightLayout layout);

/// embedding() in f32, without gradient, for a table [V, D] of f32, bf16 or f16 of which one stride is 1.
/// `packed` holds its numbers where it is not null; else they are read in place, and pages of a file stay
/// such.
Tensor stored_embedding(const Tensor& table, std::shared_ptr<const PackedWeight> packed, const Tensor& ids,
                        double scale);

/// The numbers of weight_ih and weight_hh where they are packed; null: those of the tensors. Ignored where a
/// gradient is recorded.
struct PackedRecurrent {
  const PackedWeight* ih = nullptr;
  const PackedWeight* hh = nullptr;
};
/// lstm() and gru().
RecurrentResult stored_lstm(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                            const RecurrentOptions& options, const PackedRecurrent& packed);
RecurrentResult stored_gru(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                           const RecurrentOptions& options, const PackedRecurrent& packed);

/// Which side of y = x op(W) the matrix W [out, in] is used on: op(W) = W^T, or W itself (the gradient of x).
enum class ProductOf { transpose, itself };

/// x W^T or x W for one W and `times` matrices x. In f32, W is packed once, unless that is not worth it. T is
/// float or double.
template <class T>
class RepeatedProduct {
 public:
  /// w [out, in] of T or, for float, f32, bf16 or f16, contiguous, must outlive this; `packed` holds its
  /// numbers for x W^T where it is not null.
  RepeatedProduct(const Tensor& w, ProductOf kind, std::int64_t times, const PackedWeight* packed = nullptr);

  /// y = x op(W) + bias, or y += that.
  struct Rows {
    std::int64_t m = 0;
    const T* x = nullptr;  // [m, k], rows ldx apart
    std::int64_t ldx = 0;
    const T* bias = nullptr;  // [n], or null
    T* y = nullptr;           // [m, n], rows ldy apart
    std::int64_t ldy = 0;
    bool accumulate = false;
  };
  void operator()(const Rows& rows) const;

 private:
  std::int64_t n_, k_;
  kernels::StoredMatrix w_;  // [n, k]
  std::shared_ptr<const kernels::PackedMatrix> own_;
};

/// linear(x, weight, bias), x [R, in], for one weight that needs a gradient and many x of one pass. The
/// weight is packed once. Each use hands its operands over on the way back, and one product over all uses
/// gives its gradient. Threads: one at a time.
class RepeatedLinear {
 public:
  RepeatedLinear(const Tensor& weight, const Tensor& bias);
  Tensor operator()(const Tensor& x) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace heed
