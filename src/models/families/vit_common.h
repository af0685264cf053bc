// What ViT and the families after it share: the sizes of images and patches, the tokens that are made of
// pixels, and pre-norm layers.
#pragma once

#include <cstdint>
#include <string>

#include "heed/io/json.h"
#include "heed/nn/feed_forward.h"
#include "models/encoder.h"
#include "models/weight_builder.h"

namespace heed {

/// Defaults of config.json that differ between families.
struct VitDefaults {
  std::int64_t patch = 16;
  double norm_eps = 1e-12;
};

struct VitConfig {
  EncoderConfig encoder;
  std::int64_t channels = 0, registers = 0;
  Shape image, patch;
  bool bias = true;           // of queries, keys and values
  bool distillation = false;  // a second learned token, which DeiT has

  /// The settings that all have. The number of tokens follows by count_tokens().
  static VitConfig parse(const Config& json, const VitDefaults& defaults = {});
  /// Sets the encoder's positions (rows of the table) and max_positions (tokens).
  void count_tokens();
};

/// The last part of the tensors' names in a layer.
struct VitLayerNames {
  std::string norm = "layernorm_before", feed_forward_norm = "layernorm_after";
  std::string up = "intermediate.dense", down = "output.dense";
  std::string scale = "", feed_forward_scale = "";  // of LayerScale; empty: none
  bool gated = false;                               // `up` holds the gate as well (SwiGLU)
};

/// Takes what turns pixels into tokens [B, N, D]: the learned class token, the distillation token, the
/// registers, which have no position (Darcet et al. 2024, "Vision Transformers Need Registers"), and the
/// patches.
std::shared_ptr<const Frontend> take_vit_frontend(const VitConfig& config, const std::string& prefix,
                                                  WeightBuilder& w);
/// Takes the layers, below PREFIXencoder.layer, and the final norm. A new layer scale is `new_scale`.
Stack take_vit_stack(const VitConfig& config, const std::string& prefix, const VitLayerNames& names,
                     WeightBuilder& w, double new_scale = 1.0);

}  // namespace heed
