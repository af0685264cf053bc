// The layers of BART, which Marian and Whisper share: biases everywhere, layer norms, the names self_attn,
// encoder_attn, fc1, fc2.
#pragma once

#include <cstdint>

#include "heed/models/tensor_table.h"
#include "heed/ops/activation.h"
#include "models/encoder_decoder.h"

namespace heed {

struct BartLayers {
  std::int64_t d_model = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::int64_t encoder_heads = 0, decoder_heads = 0;
  std::int64_t encoder_d_ff = 0, decoder_d_ff = 0;
  Activation activation = Activation::gelu;
  double dropout = 0.0, attention_dropout = 0.0, activation_dropout = 0.0;
  bool norm_first = false;  // before each sublayer instead of after it
  bool key_bias = true;
};

/// Rows for the layers of both stacks, below `model.encoder.layers` and `model.decoder.layers`.
void add_bart_layers(TensorTable& table, const BartLayers& config);
/// The layers of both stacks.
void build_bart_layers(EncoderDecoderParts& parts, const BartLayers& config, const Weights& weights);

}  // namespace heed
