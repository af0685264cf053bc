// What BART and the families after it share. The layers, which Marian and Whisper have too: biases
// everywhere, layer norms, the names self_attn, encoder_attn, fc1, fc2. And the whole model of mBART, M2M100
// and Pegasus, which differ in their positions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "heed/io/json.h"
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

  /// The settings of config.json; those that no model of these families computes with are ignored.
  static BartLayers parse(const Config& json, const char* activation_default = "gelu",
                          double attention_dropout_default = 0.0);
};

/// Defaults of config.json that differ between families.
struct BartDefaults {
  std::int64_t vocab_size = 50265, pad = 1, eos = 2;
  std::optional<std::int64_t> start = {};  // eos when absent
  const char* activation = "gelu";
  double attention_dropout = 0.0;
  bool scale_embedding = false;
};

struct BartConfig {
  BartLayers layers;
  std::int64_t vocab_size = 0, max_positions = 0;
  std::int64_t pad = 0, eos = 0, start = 0;
  double embedding_scale = 1.0;
  bool tied = true;
  bool starts_with_last_label = false;  // EncoderDecoderFacts::starts_with_last_label

  static BartConfig parse(const Config& json, const BartDefaults& defaults = {});
};

/// max_position_embeddings of a family whose positions are computed before a file is looked at.
std::int64_t computed_positions(const Config& json);
/// The row of the embedding that both stacks share, and the output's, which is tied to it or separate.
void add_shared_embedding(TensorTable& table, const BartConfig& config);
/// The row of the bias on the logits.
void add_logits_bias(TensorTable& table, std::int64_t vocab_size);
/// The model, from the rows above and below and, with norm_first, final norms. `add_positions` completes the
/// embeddings of the stack `model.encoder.` or `model.decoder.`.
std::unique_ptr<Model> build_bart_model(
    const BartConfig& config, ModelFiles files,
    const std::function<void(const Weights&, const std::string& stack, InputEmbeddings&)>& add_positions);

/// Rows for the layers of both stacks, below `model.encoder.layers` and `model.decoder.layers`.
void add_bart_layers(TensorTable& table, const BartLayers& config);
/// The layers of both stacks.
void build_bart_layers(EncoderDecoderParts& parts, const BartLayers& config, const Weights& weights);

}  // namespace heed
