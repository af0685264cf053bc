// The layers of BART's kind of encoder-decoder, which Marian and Whisper share: biases everywhere, layer
// norms, the names self_attn, encoder_attn, fc1, fc2.
#pragma once

#include <cstdint>

#include "heed/io/json.h"
#include "heed/models/tensor_table.h"
#include "heed/nn/block.h"
#include "models/encoder_decoder.h"

namespace heed {

struct BartLayout {
  std::int64_t width = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::int64_t encoder_heads = 0, decoder_heads = 0;
  std::int64_t encoder_inner = 0, decoder_inner = 0;
  Activation activation = Activation::gelu;
  double dropout = 0.0, attention_dropout = 0.0, activation_dropout = 0.0;
  NormPlace norm_place = NormPlace::post;
  bool key_bias = true;
};

/// Rows for the layers of both stacks, below `model.encoder.layers` and `model.decoder.layers`.
void add_bart_layers(TensorTable& table, const BartLayout& layout);
/// The layers of both stacks.
void build_bart_layers(EncoderDecoderParts& parts, const BartLayout& layout, const Weights& weights);

}  // namespace heed
