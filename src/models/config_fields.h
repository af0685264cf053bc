// What the config.json of every family has in common: checks of single settings, and the keys that no model
// of Hugging Face's computes with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/dtype.h"
#include "heed/io/json.h"
#include "heed/nn/positions.h"
#include "heed/ops/activation.h"

namespace heed {

/// The most positions for which tables are made, and the most heads, before a file is looked at.
inline constexpr std::int64_t kMostPositions = 65536, kMostHeads = 65536;

/// A number of layers: at most 1000, as every layer has tensors before a file is looked at.
std::int64_t layer_count(const Config& json, const char* key, std::int64_t default_value);
/// The number under `key`, which must lie in [0, 1).
double probability(const Config& json, const char* key, double default_value);
/// The number under `key`, which must be at least 0.
double norm_epsilon(const Config& json, const char* key, double default_value);
/// The number under `key`, which must be above 0.
double positive_number(const Config& json, const char* key, double default_value);
/// `alias` where the config has it, else `key`: transformers lets the common name of a setting (hidden_size)
/// win over a family's own (n_embd).
const char* common_or_own(const Config& json, const char* alias, const char* key);
/// The row of the embedding that learns nothing from lookups, under `pad_token_id`: null is none, and a
/// negative id counts from the end.
std::optional<std::int64_t> padding_setting(const Config& json, std::optional<std::int64_t> default_value,
                                            std::int64_t vocab_size);
/// The integer of at least 1 under `key`; null and absent may mean different things.
std::int64_t integer_or_null(const Config& json, const char* key, std::int64_t when_null,
                             std::int64_t when_absent);
/// The activation of that name, the value of `key`.
Activation activation_setting(const Config& json, const char* key, const std::string& name);
/// Throws Error unless `heads` divides `d_model` and is at most kMostHeads.
void check_heads(const Config& json, const char* key, std::int64_t d_model, std::int64_t heads);
/// Which layers attend to a window of tokens only: those that `layer_types` calls sliding_attention, or,
/// without that key, those of `default_value`, one for each layer.
std::vector<bool> sliding_layers(const Config& json, std::vector<bool> default_value);
/// Throws Error unless 0 <= id < vocab.
void check_id(const Config& json, const char* key, std::int64_t id, std::int64_t vocab);
/// The token under `key`, or the first where there are several.
std::int64_t single_id(const Config& json, const char* key, std::int64_t default_value);
/// Marks the keys that any config may have and that change nothing in the model itself: names, versions,
/// labels, settings of generation and of other tools. Throws Error for quantized weights.
void ignore_common_keys(const Config& json);
/// Throws Error for a key that is still unused, naming the nearest that was asked for: a new model is as its
/// description. For an existing model such keys are reported instead (Model::unknown_settings).
void refuse_unknown_keys(const Config& json);
/// A dtype as config.json spells it: float32, bfloat16, float16, ...
std::string dtype_in_config(DType dtype);
/// The config's text with the dtype of the weights saved beside it, and with their quantization_config, JSON,
/// or "null".
std::string config_for_saving(const Config& json, DType dtype, const std::string& quantization);

// Rotary positions as config.json describes them: in `rope_parameters`, or in `rope_theta` and
// `rope_scaling` as before transformers 5.

/// Keys and defaults that differ between families.
struct RopeKeys {
  const char* theta = "rope_theta";
  const char* layer_type =
      nullptr;                    // key in `rope_parameters`, where kinds of layers have their own (Gemma 3)
  bool scaled = true;             // whether `rope_scaling` concerns these layers
  const char* partial = nullptr;  // key of the part of a head that is rotated; null: all of it
  double theta_default = 10000;
  double partial_default = 1;
};

/// The options for heads of so many elements, in a model trained on texts of at most `max_positions`. Throws
/// Error for a kind of scaling that is not known, and for what a kind lacks. `dim` is 0 where too small a
/// part of a head that is rotated makes an element: such a model has no positions.
RotaryOptions rotary_options(const Config& json, std::int64_t head_dim, std::int64_t max_positions,
                             const RopeKeys& keys = {});

/// Whether the frequencies depend on the length of the text.
bool follows_length(const RotaryOptions& options);

}  // namespace heed
