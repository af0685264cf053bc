// What ViT and the families after it share: the sizes of images and patches, the tokens that are made of
// pixels or of a spectrogram, and pre-norm layers.
#pragma once

#include <cstdint>
#include <string>

#include "heed/io/json.h"
#include "heed/nn/feed_forward.h"
#include "models/embeddings.h"
#include "models/encoder.h"
#include "models/weight_builder.h"

namespace heed {

inline constexpr std::int64_t kMostPixels = 65536;  // of a side

/// Defaults of config.json that differ between families.
struct VitDefaults {
  std::int64_t d_model = 768, heads = 12;
  std::int64_t patch = 16;
  double norm_eps = 1e-12;
  const char* activation = "gelu";
  const char* attention_dropout = "attention_probs_dropout_prob";  ///< the key
};

/// The number of register tokens, `num_register_tokens`.
std::int64_t register_count(const Config& json, std::int64_t default_value);

/// The side of a square of so many patches, rounded down.
std::int64_t side_of(std::int64_t patches);

/// Which maps have a bias.
struct VitBiases {
  bool patches = true, query = true, key = true, value = true, attention_out = true, feed_forward = true;
};

struct VitConfig {
  EncoderConfig encoder;
  std::int64_t channels = 0, registers = 0;
  Shape image, patch;
  Shape stride = {};         // of patches that overlap
  bool spectrogram = false;  // the input is [frames, bins]; `image` is [bins, frames] of one channel
  VitBiases bias;
  bool class_token = true;
  bool distillation = false;  // a second learned token, which DeiT has
  bool mask_token = false;    // in place of the patches that pretraining hides: in the file, not used here
  double layer_scale = 1.0;   // of a new model
  /// How positions are resized for images of other sizes than `image`.
  GridResize resize = GridResize::none;
  /// The base of the rotary positions of patches, in place of a table; 0: a table.
  double rotary_base = 0;

  /// The settings that all have, and the sizes of images and patches. The number of tokens follows by
  /// count_tokens().
  static VitConfig parse(const Config& json, const VitDefaults& defaults = {});
  /// Those of the layers alone, which may read texts as well (CLIP).
  static VitConfig parse_layers(const Config& json, const VitDefaults& defaults);
  /// Sets the encoder's positions (rows of the table) and its number of tokens, which is a limit unless
  /// images may have any size.
  void count_tokens();
  bool any_size() const { return resize != GridResize::none || rotary_base > 0; }
  /// Learned tokens with a position, before the patches.
  std::int64_t first_tokens() const { return (class_token ? 1 : 0) + (distillation ? 1 : 0); }
  /// [rows, columns] of the patches of `image`.
  Shape grid() const {
    const Shape& step = stride.rank() > 0 ? stride : patch;
    return {(image[0] - patch[0]) / step[0] + 1, (image[1] - patch[1]) / step[1] + 1};
  }
};

/// The tensors' names, below the prefix of the body.
struct VitNames {
  std::string class_token = "embeddings.cls_token", positions = "embeddings.position_embeddings",
              patches = "embeddings.patch_embeddings.projection";
  bool flat = false;       // the class token is [D] and the table [N, D], not [1, 1, D] and [1, N, D]
  Shape mask_token = {1};  // the axes before D
  std::string embeddings_norm = "";  // of all tokens, before the layers; empty: none
  std::string layers = "encoder.layer.", final_norm = "layernorm";  // the latter may be empty: none
  // Below layersI.:
  std::string query = "attention.attention.query", key = "attention.attention.key",
              value = "attention.attention.value", attention_out = "attention.output.dense";
  std::string norm = "layernorm_before", feed_forward_norm = "layernorm_after";
  std::string up = "intermediate.dense", down = "output.dense", gate = "";  // of SwiGLU; empty: none
  bool fused_gate = false;                                                  // `up` holds the gate as well
  std::string scale = "", feed_forward_scale = "";                          // of LayerScale; empty: none
};

/// Takes what turns pixels into tokens [B, N, D] (the learned class token, the distillation token, the
/// registers, which have no position (Darcet et al. 2024, "Vision Transformers Need Registers"), and the
/// patches), the layers, and the final norm. Names begin with `prefix`.
EncoderParts take_vit_body(const VitConfig& config, const std::string& prefix, const VitNames& names,
                           WeightBuilder& w);
/// The layers and the final norm alone.
Stack take_vit_stack(const VitConfig& config, const std::string& prefix, const VitNames& names,
                     WeightBuilder& w);

}  // namespace heed
