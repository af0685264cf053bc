// Encoders of images and decoders of text as towers of another model: what a family reads of its own object
// in the config.json of the whole, and the parts that it takes below a prefix.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "heed/io/json.h"
#include "models/decoder.h"
#include "models/families/vit_common.h"

namespace heed {

/// An encoder of images without its head.
struct ImageTower {
  VitConfig body;
  VitNames names = {};
  /// Of the map `pooler.dense` [pooled, D] of the first token, which files may have; 0: none.
  std::int64_t pooled = 0;
  Activation pooler_activation = Activation::tanh;
};

/// A decoder with cross-attention.
struct TextTower {
  std::int64_t vocab_size = 0, d_model = 0, max_positions = 0;
  /// Takes the parts, whose cross-attention reads memory of width `d_memory`.
  std::function<DecoderParts(const std::string& prefix, std::int64_t d_memory, WeightBuilder& w)> take = {};
  /// Whether that may be another width than d_model.
  bool reads_any_width = false;
  /// Positions are computed, and count the tokens that are not this padding.
  std::optional<std::int64_t> computed_from_padding = {};
  /// The family's own, where no config.json names others.
  std::optional<std::int64_t> pad = {}, eos = {}, start = {};
};

ImageTower vit_tower(const Config& json);  // and DeiT
ImageTower dinov2_tower(const Config& json);
ImageTower dinov3_tower(const Config& json);

TextTower bert_tower(const Config& json);
TextTower gpt2_tower(const Config& json);
TextTower roberta_tower(const Config& json);
TextTower trocr_tower(const Config& json);

}  // namespace heed
