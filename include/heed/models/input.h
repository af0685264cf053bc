// The input of a model: one type for tokens, images and sound.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// `patches`: the patches of images of any proportions, one after the other.
enum class InputKind : std::uint8_t { tokens, pixels, patches, spectrogram, waveform };

/// The input of a model's first layer.
struct InputSpec {
  InputKind kind = InputKind::tokens;
  /// The shape of one row of `ModelInput::values`: [channels, height, width]; [patches, numbers of a patch];
  /// [bins, frames] or [frames, bins]; or [samples]. -1 is any size.
  Shape row = {};
  /// The name in transformers: `input_ids`, `pixel_values`, `input_features` or `input_values`.
  const char* name = "input_ids";
  Shape usual = {};  ///< a row that fits, where `row` has -1; may be empty
  /// For images, and for spectrograms that are read as images ([bins, frames]): height and width of a patch
  /// in pixels. The tokens are the rows of patches, one after the other, after `leading` others: a class
  /// token, a distillation token, registers.
  Shape patch = {};
  std::int64_t leading = 0;
  Shape stride = {};  ///< from one patch to the next, where they overlap; else empty
  /// For a waveform: the samples that the first frame needs, and the samples from one frame to the next.
  std::int64_t least = 0, hop = 0;

  /// Returns the usual shape of a row, if the family has one; else `row`, in which -1 is any size.
  const Shape& fitting() const { return usual.rank() > 0 ? usual : row; }
  /// Whether the input is an image.
  bool is_image() const { return kind == InputKind::pixels || kind == InputKind::patches; }
  /// Whether the input is a sound.
  bool is_sound() const { return kind == InputKind::spectrogram || kind == InputKind::waveform; }
};

/// B rows of input of one kind.
struct ModelInput {
  Tensor ids = {};  ///< token ids i64 [B, T]
  /// i64 [B, T]: 1 for a token or a patch, 0 for padding; of a waveform [B, samples]; undefined if there is
  /// no padding.
  Tensor mask = {};
  Tensor type_ids = {};    ///< the segment of each token, i64 [B, T]; undefined for all 0
  Tensor embeddings = {};  ///< floating [B, T, E] in place of `ids`: what the token table gives
  Tensor values = {};      ///< f32 [B, ...]: pixels [B, C, H, W], patches, a spectrogram or a waveform
  Tensor grids = {};       ///< of patches: the rows and columns of each image, i64 [B, 2]
  /// For encode(): the token of each row whose hidden state is read. The result is [B, 1, D] with the bits of
  /// these tokens, and the last layer computes no others where no listener and no gradient needs them. Empty:
  /// all tokens are read.
  std::vector<std::int64_t> read = {};
  /// For encode(): nobody reads the result at padding, so that it need not be computed, and may be 0.
  bool skips_padding = false;

  /// Returns the tensor that is defined: `ids`, else `embeddings`, else `values`.
  const Tensor& first() const { return ids.defined() ? ids : embeddings.defined() ? embeddings : values; }
  /// Returns B.
  std::int64_t size() const { return first().size(0); }
};

}  // namespace heed
