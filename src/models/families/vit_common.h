// What ViT and the families after it share: the sizes of images and patches, the tokens that are made of
// pixels, and pre-norm layers.
#pragma once

#include <cstdint>
#include <string>

#include "heed/io/json.h"
#include "heed/nn/feed_forward.h"
#include "models/encoder.h"
#include "models/position_grid.h"
#include "models/weight_builder.h"

namespace heed {

/// Defaults of config.json that differ between families.
struct VitDefaults {
  std::int64_t patch = 16;
  double norm_eps = 1e-12;
};

/// The side of a square of so many patches, rounded down.
std::int64_t side_of(std::int64_t patches);

struct VitConfig {
  EncoderConfig encoder;
  std::int64_t channels = 0, registers = 0;
  Shape image, patch;
  bool bias = true;           // of queries, keys and values
  bool distillation = false;  // a second learned token, which DeiT has
  bool mask_token = false;    // in place of the patches that pretraining hides: in the file, not used here
  double layer_scale = 1.0;   // of a new model
  /// How positions are resized for images of other sizes than `image`.
  GridResize resize = GridResize::none;

  /// The settings that all have. The number of tokens follows by count_tokens().
  static VitConfig parse(const Config& json, const VitDefaults& defaults = {});
  /// Sets the encoder's positions (rows of the table) and its number of tokens, which is a limit unless
  /// positions are resized.
  void count_tokens();
  /// [rows, columns] of the patches of `image`.
  Shape grid() const { return {image[0] / patch[0], image[1] / patch[1]}; }
};

/// The last parts of the tensors' names in a layer.
struct VitLayerNames {
  std::string norm = "layernorm_before", feed_forward_norm = "layernorm_after";
  std::string up = "intermediate.dense", down = "output.dense";
  std::string scale = "", feed_forward_scale = "";  // of LayerScale; empty: none
  bool gated = false;                               // `up` holds the gate as well (SwiGLU)
};

/// Begins the walk, and takes what turns pixels into tokens [B, N, D] (the learned class token, the
/// distillation token, the registers, which have no position (Darcet et al. 2024, "Vision Transformers Need
/// Registers"), and the patches), the layers below PREFIXencoder.layer, and the final norm.
EncoderParts take_vit_body(const VitConfig& config, const EncoderHeads& heads, const VitLayerNames& names,
                           WeightBuilder& w);

}  // namespace heed
