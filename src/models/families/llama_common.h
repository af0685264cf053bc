// What LLaMA and the families after it share: RMS norms before attention and a gated feed-forward, rotary
// positions, grouped heads, the names of their tensors. A family reads its config into a LlamaConfig, from
// which its parts follow.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/nn/feed_forward.h"
#include "models/config_fields.h"
#include "models/decoder.h"
#include "models/gguf_model.h"

namespace heed {

/// The mixtures of experts in the families that have them.
struct ExpertsConfig {
  std::int64_t count = 0, chosen = 0, d_ff = 0;
  bool normalize = true;
  std::string block = "mlp";                                           // the name of the block in a layer
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";  // those of an expert's matrices
  std::vector<bool> layers;                // which of them have experts; empty: none
  std::optional<double> loss_coefficient;  // of the load-balancing loss, if it is part of the loss

  bool in_layer(std::int64_t i) const { return !layers.empty() && layers[static_cast<std::size_t>(i)]; }
  /// The keys that all families with experts have. All layers have them.
  static ExpertsConfig parse(const Config& json, std::int64_t layers, std::int64_t count_default,
                             std::int64_t chosen_default);
};

/// A family's values of absent keys.
struct LlamaDefaults {
  std::int64_t kv_heads = 0;  // 0: as many as heads
  std::int64_t head_dim = 0;  // 0: d_model / heads
  std::int64_t positions = 2048;
  double norm_eps = 1e-6;
  bool tied = false;
  std::optional<std::int64_t> padding = {};
  RopeKeys rope = {};
};

struct LlamaConfig {
  std::int64_t vocab_size = 0, d_model = 0, d_ff = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::string activation = "silu";
  double norm_eps = 1e-6, attention_dropout = 0;
  bool tied = false, qkv_bias = false, out_bias = false, mlp_bias = false, headless = false;
  bool qk_norm = false, qk_norm_joins_heads = false;  // over each head, or over all of them together
  bool norm_before = true, norm_after = false;        // of attention and of feed-forward
  bool fused_projections = false;                     // qkv_proj and gate_up_proj (Phi-3)
  double dropout = 0;                                 // on the sublayers' results
  std::vector<std::int64_t> windows;                  // per layer; 0: none
  std::vector<bool> unrotated;                        // per layer; empty: all have rotary positions
  std::optional<std::int64_t> padding;                // lookups of this id give no gradient
  std::int64_t positions = 0;                         // of training
  RotaryOptions rotary;
  ExpertsConfig experts;
  std::optional<RotaryOptions> window_rotary;  // of layers with a window, where it differs (Gemma 3)
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  double given_scale = 1;                 // of embeddings in place of ids
  double norm_offset = 0;                 // added to the weights of norms (Gemma: 1)
  double score_cap = 0, logit_cap = 0;    // 0: none
  std::optional<double> attention_scale;  // 1/sqrt(head_dim) when absent
  std::int64_t recompute_beyond = 0;      // DecoderParts::recompute_beyond

  /// The keys all these families have.
  static LlamaConfig parse(const Config& json, const LlamaDefaults& defaults);
  /// Whether attention and feed-forward have biases, under attention_bias and mlp_bias.
  void read_biases(const Config& json);
  /// Which layers have a window, in Qwen's configs: named one by one, or all from max_window_layers on.
  void read_layer_windows(const Config& json);
  /// Gives the window to the layers that `layer_types` calls sliding, or without that key to those that
  /// `slides` names.
  void set_windows(const Config& json, std::int64_t window, std::vector<bool> slides);
};

std::unique_ptr<Model> build_llama(const LlamaConfig& config, WeightBuilder& w);

// The models of llama_common.h as GGUF files describe them: the reverse of io/gguf_config.cpp.

/// The metadata of a model whose config.json, read from `where`, has the model_type `family`. Throws Error
/// for a family that GGUF files do not have, and for a setting that they do not keep.
GgufModel llama_gguf(const LlamaConfig& config, const std::string& family, const std::string& where);

/// The model_types that can be written, for messages: those that llama_gguf() knows, and others.
std::string gguf_families();

}  // namespace heed
