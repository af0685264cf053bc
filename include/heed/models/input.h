// What a model reads: one value for tokens, images and sound.
#pragma once

#include <cstdint>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// The kinds of input, which transformers calls `input_ids`, `pixel_values` and `input_features`.
enum class InputKind : std::uint8_t { tokens, pixels, spectrogram };

/// Returns that name.
const char* input_name(InputKind kind);

/// What the first layer of a model takes.
struct InputSpec {
  InputKind kind = InputKind::tokens;
  Shape row =
      {};  ///< of one row of `ModelInput::values`: [channels, height, width] or [bins, frames]; -1: any size
  Shape usual = {};  ///< a row that fits, where `row` has -1
};

/// B rows of input of one kind.
struct ModelInput {
  Tensor ids = {};         ///< token ids i64 [B, T]
  Tensor mask = {};        ///< i64 [B, T]: 1 for a token, 0 for padding; undefined if there is no padding
  Tensor type_ids = {};    ///< the segment of each token, i64 [B, T]; undefined for all 0
  Tensor embeddings = {};  ///< floating [B, T, E] in place of `ids`: what the token table gives
  Tensor values = {};      ///< f32 [B, ...]: pixels [B, C, H, W] or a spectrogram [B, bins, frames]

  /// Returns the tensor that is defined: `ids`, else `embeddings`, else `values`.
  const Tensor& first() const { return ids.defined() ? ids : embeddings.defined() ? embeddings : values; }
  /// Returns B.
  std::int64_t size() const { return first().size(0); }
};

}  // namespace heed
