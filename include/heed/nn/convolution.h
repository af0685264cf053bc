// How audio features and images become tokens: linear maps over windows in time (Whisper) and over the
// patches of an image (ViT).
#pragma once

#include "heed/export.h"
#include "heed/nn/linear.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// A convolution in time, activation(sum over k of W[:, :, k] x[t stride + k - padding] + b), with zero
/// padding. From x [B, T, C] to [B, (T + 2 padding - K) / stride + 1, D]. In G groups, the outputs of a group
/// read the channels of the same group only.
struct Conv1d {
  Tensor weight;  // [D, C / G, K]
  Tensor bias;    // [D], or undefined
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;  ///< G
  /// [1, 1, K], or undefined: the Euclidean norm of each W[:, :, k], of which `weight` is the direction alone
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
