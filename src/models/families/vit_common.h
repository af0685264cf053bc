// What ViT and the families after it share: the sizes of images and patches, the tokens that are made of
// pixels or of a spectrogram, and pre-norm layers.
#pragma once

#include <cstdint>
#include <string>

#include "heed/io/json.h"
#include "heed/nn/feed_forward.h"
#include "models/encoder.h"
#include "models/weight_builder.h"

namespace heed {

inline constexpr std::int64_t kMostPixels = 65536;  // of a side

/// Defaults of config.json that differ between families.
struct VitDefaults {
  std::int64_t patch = 16;
  double norm_eps = 1e-12;
};

struct VitConfig {
  EncoderConfig encoder;
  std::int64_t channels = 0, registers = 0;
  Shape image, patch;
  Shape stride = {};          // of patches that overlap
  bool spectrogram = false;   // the input is [frames, bins]; `image` is [bins, frames] of one channel
  bool bias = true;           // of queries, keys and values
  bool distillation = false;  // a second learned token, which DeiT has
  bool mask_token = false;    // in place of the patches that pretraining hides: in the file, not used here
  double layer_scale = 1.0;   // of a new model

  /// The settings of the layers, which all have.
  static VitConfig parse_layers(const Config& json, double norm_eps);
  /// These and the sizes of images and patches. The number of tokens follows by count_tokens().
  static VitConfig parse(const Config& json, const VitDefaults& defaults = {});
  /// Sets the encoder's positions (rows of the table) and max_positions (tokens).
  void count_tokens();
};

/// The last parts of the tensors' names in a layer.
struct VitLayerNames {
  std::string norm = "layernorm_before", feed_forward_norm = "layernorm_after";
  std::string up = "intermediate.dense", down = "output.dense";
  std::string scale = "", feed_forward_scale = "";  // of LayerScale; empty: none
  bool gated = false;                               // `up` holds the gate as well (SwiGLU)
};

/// Begins the walk, and takes what turns an image or a spectrogram into tokens [B, N, D] (the learned class
/// token, the distillation token, the registers, which have no position (Darcet et al. 2024, "Vision
/// Transformers Need Registers"), and the patches), the layers below PREFIXencoder.layer, and the final norm.
EncoderParts take_vit_body(const VitConfig& config, const EncoderHeads& heads, const VitLayerNames& names,
                           WeightBuilder& w);

}  // namespace heed
