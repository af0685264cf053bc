// Reading rotary settings.
#include "models/families/rope_config.h"

#include <algorithm>

#include "models/config_fields.h"

namespace heed {
namespace {

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
