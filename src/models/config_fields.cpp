// Checks of settings, and the keys all families ignore.
#include "models/config_fields.h"

#include <algorithm>
#include <cmath>

#include "core/edit_distance.h"

namespace heed {
namespace {

// The last word of a key: heads of num_attention_heads.
std::string last_word(const std::string& key) { return key.substr(key.rfind('_') + 1); }

// What `key` was probably meant to be: of the known ones with the same last word (num_hidden_layers for
// num_layers) the nearest, else one of nearly the same letters. Empty: none.
std::string meant_key(const std::string& key, const std::vector<std::string>& known) {
  std::string nearest;
  for (const std::string& name : known) {
    const bool nearer = nearest.empty() || edit_distance(name, key) < edit_distance(nearest, key);
    if (last_word(name) == last_word(key) && nearer) nearest = name;
  }
  return nearest.empty() ? nearest_word(key, known) : nearest;
}

// Reading rotary settings.

double positive(const Config& json, const char* key, std::optional<double> default_value) {
  if (!default_value) json.required_number(key);
  return positive_number(json, key, default_value.value_or(0));
}

double part_of_head(const Config& json, const char* key, double default_value) {
  const double part = json.number(key, default_value);
  if (!(part >= 0 && part <= 1)) json.fail(key, "a number from 0 to 1");
  return part;
}

RotaryScalingKind kind_of(const Config& json) {
  const char* key = json.has("rope_type") ? "rope_type" : "type";
  const std::string name = json.string(key, "default");
  json.ignore({"type"});  // some files have both
  const bool has_factors = json.has("long_factor");
  if (name == "su" || (name == "yarn" && has_factors)) return RotaryScalingKind::longrope;  // early Phi-3
  if (name == "default") return RotaryScalingKind::none;
  if (name == "linear") return RotaryScalingKind::linear;
  if (name == "dynamic") return RotaryScalingKind::dynamic;
  if (name == "llama3") return RotaryScalingKind::llama3;
  if (name == "yarn") return RotaryScalingKind::yarn;
  if (name == "longrope") return RotaryScalingKind::longrope;
  if (name == "proportional") return RotaryScalingKind::proportional;
  json.fail(key, "default, linear, dynamic, llama3, yarn, longrope or proportional");
}

RotaryScaling scaling_of(const Config& outer, const Config& json, std::int64_t max_positions) {
  RotaryScaling s;
  s.kind = kind_of(json);
  const bool stretched = s.kind != RotaryScalingKind::none && s.kind != RotaryScalingKind::linear &&
                         s.kind != RotaryScalingKind::dynamic && s.kind != RotaryScalingKind::proportional;
  s.original_length = max_positions;
  if (stretched) {
    const char* key = "original_max_position_embeddings";
    s.original_length = json.positive_integer(key, max_positions);
    s.original_length = outer.positive_integer(key, s.original_length);
  } else {
    json.ignore({"original_max_position_embeddings"});
  }
  std::optional<double> factor;
  if (s.kind == RotaryScalingKind::yarn || s.kind == RotaryScalingKind::longrope)
    factor = static_cast<double>(max_positions) / static_cast<double>(s.original_length);
  if (s.kind == RotaryScalingKind::proportional) factor = 1;
  if (s.kind != RotaryScalingKind::none) s.factor = positive(json, "factor", factor);
  if (s.kind == RotaryScalingKind::llama3) {
    s.low_freq_factor = positive(json, "low_freq_factor", {});
    s.high_freq_factor = positive(json, "high_freq_factor", {});
  }
  if (s.kind == RotaryScalingKind::yarn) {
    s.beta_fast = positive(json, "beta_fast", 32);
    s.beta_slow = positive(json, "beta_slow", 1);
    s.truncate = json.boolean("truncate", true);
    s.mscale = json.optional_number("mscale");
    s.mscale_all_dim = json.optional_number("mscale_all_dim");
  }
  if (stretched && s.kind != RotaryScalingKind::llama3)
    s.attention_factor = json.optional_number("attention_factor");
  if (s.kind == RotaryScalingKind::longrope) {
    s.short_factor = json.numbers("short_factor");
    s.long_factor = json.numbers("long_factor");
  }
  return s;
}

void check_factors(const Config& json, const RotaryOptions& options) {
  const auto pairs = static_cast<std::size_t>(options.dim + 1) / 2;
  const auto check = [&](const char* key, const std::vector<double>& factors) {
    const bool positive = std::all_of(factors.begin(), factors.end(), [](double f) { return f > 0; });
    if (factors.size() != pairs || !positive)
      json.fail(key, std::to_string(pairs) + " numbers above 0, one for each pair of rotary dims");
  };
  check("short_factor", options.scaling.short_factor);
  check("long_factor", options.scaling.long_factor);
}

// The object under `key`, where it says something.
std::optional<Config> settings(const Config& json, const char* key) {
  std::optional<Config> inner = json.optional_sub(key);
  if (inner && inner->names().empty()) inner.reset();
  return inner;
}

}  // namespace

std::int64_t layer_count(const Config& json, const char* key, std::int64_t default_value) {
  const std::int64_t layers = json.positive_integer(key, default_value);
  if (layers > 1000) json.fail(key, "at most 1000 layers");
  return layers;
}

double probability(const Config& json, const char* key, double default_value) {
  const double p = json.number(key, default_value);
  if (!(p >= 0.0 && p < 1.0)) json.fail(key, "a probability in [0, 1)");
  return p;
}

double norm_epsilon(const Config& json, const char* key, double default_value) {
  const double epsilon = json.number(key, default_value);
  if (!(epsilon >= 0.0)) json.fail(key, "a number of at least 0");
  if (epsilon > 1.0) json.fail(key, "a number of at most 1");
  return epsilon;
}

double positive_number(const Config& json, const char* key, double default_value) {
  const double value = json.number(key, default_value);
  if (!(value > 0)) json.fail(key, "a number above 0");
  if (!std::isnormal(static_cast<float>(value))) json.fail(key, "a number that f32 holds");
  return value;
}

const char* common_or_own(const Config& json, const char* alias, const char* key) {
  if (!json.has(alias)) return key;
  json.ignore({key});
  return alias;
}

std::optional<std::int64_t> padding_setting(const Config& json, std::optional<std::int64_t> default_value,
                                            std::int64_t vocab_size) {
  const char* key = "pad_token_id";
  const std::vector<std::string> names = json.names();
  if (!json.has(key)) {
    if (std::find(names.begin(), names.end(), key) != names.end()) return std::nullopt;
    if (default_value && *default_value >= vocab_size) {
      throw Error(json.where() + ": " + key + ": expected an id in [0, " + std::to_string(vocab_size) +
                  ") or null, got none, which stands for this family's " + std::to_string(*default_value));
    }
    return default_value;
  }
  const std::int64_t id = json.required_integer(key);
  check_id(json, key, id < 0 ? id + vocab_size : id, vocab_size);
  return id < 0 ? id + vocab_size : id;
}

std::int64_t integer_or_null(const Config& json, const char* key, std::int64_t when_null,
                             std::int64_t when_absent) {
  if (json.has(key)) return json.required_positive_integer(key);
  json.ignore({key});
  const std::vector<std::string> names = json.names();
  return std::find(names.begin(), names.end(), key) != names.end() ? when_null : when_absent;
}

Activation activation_setting(const Config& json, const char* key, const std::string& name) {
  try {
    return activation_named(name);
  } catch (const Error& error) {
    throw Error(json.where() + ": " + key + ": " + error.what());
  }
}

void check_heads(const Config& json, const char* key, std::int64_t d_model, std::int64_t heads) {
  if (heads > kMostHeads) json.fail(key, "at most " + std::to_string(kMostHeads) + " heads");
  if (d_model % heads != 0) {
    json.fail(key,
              std::string("a number of heads that divides the model dimension ") + std::to_string(d_model));
  }
}

std::vector<bool> sliding_layers(const Config& json, std::vector<bool> slides) {
  const std::vector<std::string> types = json.strings("layer_types");
  if (types.empty()) return slides;
  if (types.size() != slides.size())
    json.fail("layer_types", "one for each of " + std::to_string(slides.size()) + " layers");
  for (std::size_t i = 0; i < slides.size(); ++i) {
    slides[i] = types[i] == "sliding_attention";
    if (!slides[i] && types[i] != "full_attention")
      json.fail("layer_types", "full_attention and sliding_attention only");
  }
  return slides;
}

void check_id(const Config& json, const char* key, std::int64_t id, std::int64_t vocab) {
  if (id < 0 || id >= vocab) json.fail(key, std::string("an id in [0, ") + std::to_string(vocab) + ")");
}

std::int64_t single_id(const Config& json, const char* key, std::int64_t default_value) {
  const std::vector<std::int64_t> ids = json.integers(key);
  return ids.empty() ? default_value : ids.front();
}

void ignore_common_keys(const Config& json) {
  json.ignore({"_attn_implementation",
               "_attn_implementation_autoset",
               "_commit_hash",
               "_experts_implementation",
               "_flash_attn_2_enabled",
               "_model_name_or_path",
               "_name_or_path",
               "_num_labels",
               "adapters",
               "add_cross_attention",
               "architectures",
               "attn_implementation",
               "auto_map",
               "bad_words_ids",
               "begin_suppress_tokens",
               "bos_token_id",
               "chunk_size_feed_forward",
               "cls_token_id",
               "cross_attention_hidden_size",
               "custom_pipelines",
               "decoder_start_token_id",
               "diversity_penalty",
               "do_sample",
               "dtype",
               "early_stopping",
               "encoder_no_repeat_ngram_size",
               "eos_token_id",
               "exponential_decay_length_penalty",
               "finetuning_task",
               "forced_bos_token_id",
               "forced_eos_token_id",
               "gradient_checkpointing",
               "id2label",
               "is_llama_config",
               "label2id",
               "language",
               "mask_token_id",
               "length_penalty",
               "max_length",
               "max_sequence_length",
               "min_length",
               "model_max_length",
               "model_type",
               "name",
               "no_repeat_ngram_size",
               "num_beam_groups",
               "num_beams",
               "num_labels",
               "num_return_sequences",
               "output_attentions",
               "output_hidden_states",
               "output_past",
               "output_scores",
               "pad_token_id",
               "prefix",
               "problem_type",
               "processor_class",
               "pruned_heads",
               "quantization_config",  // read with the tensors
               "remove_invalid_values",
               "repetition_penalty",
               "replacing_rate",
               "return_dict",
               "return_dict_in_generate",
               "rope_interleaved",
               "sep_token_id",
               "student_decoder_layers",
               "student_encoder_layers",
               "suppress_tokens",
               "task_specific_params",
               "temperature",
               "tf_legacy_loss",
               "tie_encoder_decoder",
               "tie_weights_",
               "tokenizer_class",
               "top_k",
               "top_p",
               "torch_dtype",
               "torchscript",
               "transformers.js_config",
               "transformers_version",
               "typical_p",
               "unk_token_id",
               "unsloth_fixed",
               "unsloth_version",
               "use_bfloat16",
               "use_cache",
               "use_mrope",
               "xla_device"});
}

void refuse_unknown_keys(const Config& json) {
  const std::vector<std::string> unused = json.unused();
  if (unused.empty()) return;
  const std::string& key = unused.front();
  const std::size_t name = key.rfind('.') + 1;  // after the object that the key is in
  std::vector<std::string> known;
  for (const std::string& asked : json.asked()) {
    if (asked.rfind('.') + 1 == name && asked.compare(0, name, key, 0, name) == 0)
      known.push_back(asked.substr(name));
  }
  std::string hint = meant_key(key.substr(name), known);
  if (!hint.empty()) hint = std::string(" (did you mean ").append(hint).append("?)");
  throw Error(json.where() + ": " + key + ": expected only known settings, got one more" + hint);
}

std::string dtype_in_config(DType dtype) {
  switch (dtype) {
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    case DType::f64: return "float64";
    default: return "float32";
  }
}

std::string config_for_saving(const Config& json, DType dtype, const std::string& quantization) {
  const std::string key = json.has("torch_dtype") ? "torch_dtype" : "dtype";
  return json
      .with("{\"" + key + "\": \"" + dtype_in_config(dtype) + "\", \"quantization_config\": " + quantization +
            "}")
      .text();
}

RotaryOptions rotary_options(const Config& json, std::int64_t head_dim, std::int64_t max_positions,
                             const RopeKeys& keys) {
  RotaryOptions options;
  options.theta = positive(json, keys.theta, keys.theta_default);
  double part = keys.partial == nullptr ? 1 : part_of_head(json, keys.partial, keys.partial_default);
  std::optional<Config> parameters = settings(json, "rope_parameters");
  if (parameters && keys.layer_type != nullptr) {
    parameters = settings(*parameters, keys.layer_type);
    if (parameters) options.theta = positive(*parameters, "rope_theta", options.theta);
  }
  std::optional<Config> inner = keys.scaled ? settings(json, "rope_scaling") : std::nullopt;
  if (inner) {
    json.ignore({"rope_parameters"});  // transformers takes the older key where a file has both
  } else {
    inner = parameters;
  }
  if (inner) {
    options.theta = positive(*inner, "rope_theta", options.theta);
    if (keys.partial != nullptr) part = part_of_head(*inner, "partial_rotary_factor", part);
    options.scaling = scaling_of(json, *inner, max_positions);
    if (options.scaling.kind == RotaryScalingKind::proportional) {
      options.scaling.part = keys.partial != nullptr ? part : positive(*inner, "partial_rotary_factor", 1);
      part = 1;  // the table has all of a head
    }
  }
  options.dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * part);
  if (options.dim == 0) return options;  // nothing is rotated
  if (options.scaling.kind == RotaryScalingKind::longrope) check_factors(*inner, options);
  if (options.dim + options.dim % 2 > head_dim) {
    throw Error(json.where() + ": rotary positions: expected pairs of the " + std::to_string(head_dim) +
                " elements of a head to rotate, got " + std::to_string(options.dim) + " elements");
  }
  return options;
}

bool follows_length(const RotaryOptions& options) {
  const RotaryScalingKind kind = options.scaling.kind;
  return kind == RotaryScalingKind::dynamic || kind == RotaryScalingKind::longrope;
}

}  // namespace heed
