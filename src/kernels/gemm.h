// Matrices as kernels take them, in memory by strides or packed, and their products.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "heed/dtype.h"
#include "heed/kernels/activation.h"
#include "heed/threads.h"

namespace heed::kernels {

/// Element (i, l) is data[i * row + l * column]; one of the two strides is 1.
struct StridedMatrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0;
  std::int64_t column = 1;

  StridedMatrix transposed() const { return {data, dtype, column, row}; }
};

/// A dense matrix [rows, columns], or one that lies transposed in memory.
inline StridedMatrix dense_matrix(const void* data, DType dtype, std::int64_t rows, std::int64_t columns,
                                  bool transposed = false) {
  return transposed ? StridedMatrix{data, dtype, 1, rows} : StridedMatrix{data, dtype, columns, 1};
}
/// A row-major matrix whose rows are `stride` numbers apart.
template <class T>
StridedMatrix row_major(const T* data, std::int64_t stride) {
  return {data, dtype_of<T>(), stride, 1};
}

/// A matrix rearranged for products and lookups, with memory of its own, about as much as the numbers need.
/// Only the kernels know its layout.
class PackedMatrix;
/// How long a packed matrix is kept: for the uses of one operation, or as a model's.
enum class Kept { briefly, lastingly };
/// Packs w [n, k] of f32, bf16 or f16.
std::shared_ptr<const PackedMatrix> pack(const StridedMatrix& w, std::int64_t n, std::int64_t k, Kept kept);

/// A matrix of f32, bf16 or f16 in the form in which it is stored: by strides, or packed if there is such an
/// address.
struct StoredMatrix {
  StridedMatrix strided{};
  const PackedMatrix* packed = nullptr;
};

/// How a product of f32 matrices is computed: as it is, or with operands rounded to bf16 (Bf16Gemm).
enum class Precision { exact, bf16 };

/// c = alpha a b + beta c.
template <class T>
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;    // with k = 0, c = beta c
  StridedMatrix a{};     // [m, k] of T
  StridedMatrix b{};     // [k, n] of T; where T is float, also bf16, which is widened exactly
  T* c = nullptr;        // [m, n]
  std::int64_t ldc = 0;  // distance between its rows
  T alpha = 1;
  T beta = 0;  // with 0, c need not be initialized
  Precision precision =
      Precision::exact;  // for float with alpha = 1 and beta = 0 or 1, which a b in bf16 needs
};
template <class T>
void gemm(const Gemm<T>& args);

/// Distances between consecutive matrices of a batch. Those of a and b may be 0: the matrix is shared.
struct GemmBatch {
  std::int64_t count = 1;
  std::int64_t stride_a = 0;
  std::int64_t stride_b = 0;
  std::int64_t stride_c = 0;
};
/// gemm on every matrix of the batch, of which `first` has the first, in parallel over the batch when they
/// are small. a and b are of T.
template <class T>
void gemm_batched(const GemmBatch& batch, const Gemm<T>& first);

/// What happens to a sum before it is stored.
struct Epilogue {
  const float* bias = nullptr;  // [n], or null
  Activation activation = Activation::none;
};

/// The batch-invariant matrix product x w^T, whose every element is a sum in one fixed order:
///
///     y[i, j] = act(fma(x[i, k-1], w[j, k-1], ... fma(x[i, 0], w[j, 0], 0)) + bias[j])
///
/// whatever m, the row's neighbors, the number of threads and the way the work is cut. A row of a batch has
/// the bits that it would have alone. w may be stored in 16 bits; it is widened exactly.
struct InvariantGemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  StridedMatrix x{};  // [m, k], f32
  StoredMatrix w{};   // [n, k]; by strides, it is packed on the way
  Epilogue epilogue{};
  float* y = nullptr;  // [m, n], rows ldy apart
  std::int64_t ldy = 0;
  bool accumulate = false;  // the sums begin with what y holds instead of 0
  /// Where w is in blocks of integers, or of numbers of a table of integers: each 32 numbers of a row of x,
  /// or up to 128 that share a scale of w, are rounded to 127 steps of their largest magnitude, the products
  /// of integers are exact within a group of w, and the sums of groups are added in the order of k. Else x is
  /// taken as it is.
  bool int8 = false;
};
/// Computes rows [begin, end) of a matrix, in its place. Several threads may call it at once, each for other
/// rows.
using ComputeRows = FunctionRef<void(std::int64_t begin, std::int64_t end)>;
/// The formula above for several products, on all threads: those that one x enters wait for each other once.
/// `rows`, if it is not null, computes the rows of the x that all of them have: where a product rounds x,
/// each row just before it is rounded.
void invariant_gemms(std::span<const InvariantGemm> all, const ComputeRows* rows = nullptr);
inline void invariant_gemm(const InvariantGemm& args) { invariant_gemms({&args, 1}); }
/// Whether invariant_gemm_chain takes products with these matrices, for m rows: both round x.
bool takes_chain(const PackedMatrix& first, const PackedMatrix& second, std::int64_t m);
/// invariant_gemm of `first`, and of `second` with an x that is the former's result: rounded as soon as it is
/// there, and not stored. first.y and second.x are not read. `rows` computes those of first.x, if it is not
/// null. The same bits as one after the other.
void invariant_gemm_chain(const InvariantGemm& first, const InvariantGemm& second,
                          const ComputeRows* rows = nullptr);

/// The matrix product of mixed-precision training: operands rounded to bf16, sums in f32 (Micikevicius et al.
/// 2018, "Mixed precision training"; Kalamkar et al. 2019, "A study of bfloat16 for deep learning training").
///
///     y[i, j] = (accumulate ? y[i, j] : 0) + sum_l bf16(x[i, l]) bf16(w[j, l])
struct Bf16Gemm {
  std::int64_t m = 0;  // m, n and k are at least 1
  std::int64_t n = 0;
  std::int64_t k = 0;
  StridedMatrix x{};   // [m, k], f32
  StridedMatrix w{};   // [n, k], f32, or bf16 already
  float* y = nullptr;  // [m, n], rows ldy apart
  std::int64_t ldy = 0;
  bool accumulate = false;
};
/// The formula above, rounding to nearest, ties to even. The order of the sums does not depend on the number
/// of threads; it may depend on the processor, and so may whether denormal numbers count as 0.
void bf16_gemm(const Bf16Gemm& args);
/// Whether this processor multiplies bf16 faster than f32; elsewhere bf16_gemm only rounds the operands.
bool bf16_gemm_is_fast();

/// y[r, i] += bias[i]; y: [rows, n].
template <class T>
void add_bias(T* y, const T* bias, std::int64_t rows, std::int64_t n);
/// db[i] = sum_r dy[r, i]; the same for any number of threads.
template <class T>
void bias_gradient(const T* dy, T* db, std::int64_t rows, std::int64_t n);

}  // namespace heed::kernels
