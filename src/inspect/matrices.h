// Eigen's dense matrices, in f64, row by row as tensors are; and those of attention heads, with the linear
// parts of norms folded in.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)  // gcc 12 warns of its own header of AVX-512, which Eigen uses
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <eigen3/Eigen/Core>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/nn/attention.h"
#include "heed/nn/stack.h"

namespace heed::inspect {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The numbers of a tensor of two axes.
inline Matrix matrix_of(const Tensor& x) {
  const std::vector<double> numbers = x.detach().to(DType::f64).to_vector<double>();
  return Eigen::Map<const Matrix>(numbers.data(), x.size(0), x.size(1));
}

inline Tensor tensor_of(const Matrix& x) {
  return Tensor::from(std::vector<double>(x.data(), x.data() + x.size()), {x.rows(), x.cols()});
}

/// Of the self-attention of one layer.
struct LayerWeights {
  std::int64_t layer = 0, heads = 0, kv_heads = 0;
  std::vector<Matrix> q, k, v;  // [d, D]; k and v of each key head
  std::vector<Matrix> out;      // [D, d]
  bool biased = false, rotated = false;

  std::size_t key_head(std::size_t head) const { return head / static_cast<std::size_t>(heads / kv_heads); }
};

/// The layers of a stack that have a self-attention with softmax. Throws Error where there is none.
std::vector<LayerWeights> attention_weights(const Model& model, const std::string& stack);

/// The map from the stream to logits, rows F, with the linear part F of the final norm and the scale before
/// it.
struct OutputVectors {
  Tensor rows = {};  // f32 [V, D]; undefined where the stack is not the one that predicts, or its last steps
                     // are no linear map
  double scale = 1;
  std::optional<Norm> norm = {};

  Matrix after(Matrix w) const;   ///< w F, of w [.., D]
  Matrix before(Matrix w) const;  ///< F w, of w [D, ..]
};
OutputVectors output_vectors(const Model& model, const std::string& stack);

}  // namespace heed::inspect
