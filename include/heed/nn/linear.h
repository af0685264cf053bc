// The basic parts of a network: linear maps, embeddings, convolutions, and dropout as layers use it. A part
// consists of its weights and a call operator; the code that builds the model provides the tensors.
#pragma once

#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/nn/context.h"
#include "heed/nn/weight.h"
#include "heed/ops/loss.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// activation(x W^T + b): x [..., in], result [..., out].
struct Linear {
  Weight weight;  // [out, in], or [in, out] (`layout`)
  Tensor bias;    // [out], or undefined
  WeightLayout layout = WeightLayout::out_in;
  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {
    return weight.linear(x, bias, activation, layout);
  }
  /// cross_entropy((*this)(x), targets), in chunks of rows: the logits of all rows are never in memory at
  /// once. x [..., in], targets i64 [...]; the layout must be out_in.
  Tensor cross_entropy(const Tensor& x, const Tensor& targets, const CrossEntropyOptions& options = {}) const;
};

/// (*map)(x) for each of the maps, with the same bits. Without gradients and adapters, the maps are computed
/// in one parallel loop instead of one after the other.
std::vector<Tensor> linear_all(const Tensor& x, const std::vector<const Linear*>& maps);

/// second(first(x, activation)), with the same bits. Without gradients and adapters, what lies between is not
/// stored where both maps round it to int8.
Tensor linear_chain(const Tensor& x, const Linear& first, Activation activation, const Linear& second);

/// scale * table[ids]: ids i64 [B, T], result [B, T, D]. Vaswani et al. 2017, section 3.4, scale by sqrt(D).
struct Embedding {
  Weight table = {};  // [V, D]
  double scale = 1.0;
  std::optional<std::int64_t> padding_id = {};  ///< this row gets no gradient
  Tensor operator()(const Tensor& ids) const;
};

/// Dropout if context.training, else x. Throws Error when the context is training without a generator.
Tensor apply_dropout(const Tensor& x, double p, Context& context);

/// Passes `value` to the listeners of `name`, if there are any; they may replace it.
inline void tap(Context& context, const std::string& name, Tensor& value, TapAxes axes = kTokenAxes) {
  if (context.wants(name)) context.taps->emit(name, value, axes);
}
/// The tap `logits` of a model's predictions [B, T, V], or [B, V] for one position of each row.
inline void tap_logits(Context& context, Tensor& logits) {
  if (context.taps != nullptr) tap(context, "logits", logits, logits.rank() == 3 ? kTokenAxes : TapAxes());
}

// Linear maps over windows in time (Whisper) and over the patches of an image (ViT): they turn audio features
// and images into tokens.

/// A convolution in time, activation(sum over k of W[:, :, k] x[t stride + k - padding] + b), with zero
/// padding. From x [B, T, C] to [B, (T + 2 padding - K) / stride + 1, D]. In G groups, the outputs of a group
/// read the channels of the same group only.
struct Conv1d {
  Tensor weight;  // [D, C / G, K]
  Tensor bias;    // [D], or undefined
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;  ///< G
  /// [1, 1, K], or undefined: the Euclidean norm of each W[:, :, k]. `weight` then has the directions only
  /// (Salimans and Kingma 2016, "Weight normalization").
  Tensor magnitude = {};
  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const;
};

/// A linear map of patches (Dosovitskiy et al. 2021, "An image is worth 16x16 words"): from pixels
/// [B, C, H, W] to [B, ((H - P) / stride[0] + 1) ((W - Q) / stride[1] + 1), D], row by row. Pixels at the
/// right and the bottom that do not fill a patch are ignored. Throws Error for an image smaller than a patch.
struct PatchEmbedding {
  Weight weight;      // [D, C, P, Q]
  Tensor bias;        // [D], or undefined
  Shape stride = {};  // [down, across]; empty: [P, Q], so that patches do not overlap
  Tensor operator()(const Tensor& pixels) const;
};

}  // namespace heed
