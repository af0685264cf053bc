// What BART and the families after it share. The layers, which Marian and Whisper have too: biases
// everywhere, layer norms, the names self_attn, encoder_attn, fc1, fc2. And the rest of mBART, M2M100 and
// Pegasus, which differ in their positions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/io/json.h"
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
  std::int64_t d_memory = 0;  // of what cross-attention reads, where that is not d_model wide

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
  bool starts_with_last_label = false;  // EncoderDecoderTraits::starts_with_last_label

  static BartConfig parse(const Config& json, const BartDefaults& defaults = {});
};

inline constexpr double kBartNormEps = 1e-5;

/// max_position_embeddings of a family whose positions are computed before a file is looked at.
std::int64_t computed_positions(const Config& json, std::int64_t default_value = 1024);

/// Takes the embedding that both stacks share, and the output map, which is tied to it or separate.
EncoderDecoderParts take_bart_embeddings(const BartConfig& config, WeightBuilder& w);
/// The two stacks, with the prefix of their names.
struct BartStack {
  std::string name;
  InputEmbeddings& embeddings;
  Stack& stack;
};
std::vector<BartStack> stacks_of(EncoderDecoderParts& parts);
/// Takes the layers of both stacks, below `model.encoder.layers` and `model.decoder.layers`.
void take_bart_layers(EncoderDecoderParts& parts, const BartLayers& config, WeightBuilder& w);
/// Takes those of a decoder alone, below PREFIXlayers.
std::vector<Layer> take_bart_decoder(const BartLayers& config, const std::string& prefix, WeightBuilder& w);
/// The bias on the logits.
Tensor take_logits_bias(WeightBuilder& w, std::int64_t vocab_size);
std::unique_ptr<Model> assemble_bart(const BartConfig& config, ModelContents files,
                                     EncoderDecoderParts parts);

}  // namespace heed
