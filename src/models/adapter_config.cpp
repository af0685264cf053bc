// Reads and writes adapter_config.json; names and sizes of modules.
#include "models/adapter_config.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "files/input_file.h"
#include "heed/error.h"
#include "models/config_fields.h"
#include "text/patterns/pattern.h"

namespace heed {
namespace {

constexpr double kMaxRank = 1 << 20;

ModuleTargets targets_setting(const Config& json, const char* key) {
  if (json.is_string(key)) return {.expression = json.required_string(key)};
  return {.names = json.strings(key)};
}

// Settings that change what an adapter computes in a way that heed does not.
void refuse_unsupported(const Config& json) {
  for (const char* key :
       {"use_dora", "lora_bias", "use_qalora", "use_bdlora", "layer_replication", "target_parameters",
        "trainable_token_indices", "alora_invocation_tokens", "megatron_config", "arrow_config",
        "velora_config", "monteclora_config", "kasa_config"}) {
    json.ignore({key});
    if (!json.is_off(key))
      json.fail(key, "none, as heed supports plain LoRA (merge the adapter into its base with PEFT)");
  }
  if (json.string("bias", "none") != "none") json.fail("bias", "\"none\", as heed trains no biases");
  // Others subtract from the base what they start with.
  const std::set<std::string> plain{"gaussian", "eva", "orthogonal"};
  if (json.is_string("init_lora_weights") && !plain.contains(json.required_string("init_lora_weights")))
    json.fail("init_lora_weights",
              "true, as this one changes the base as well (in PEFT, save the adapter with "
              "path_initial_model_for_weight_conversion)");
}

// Other keys are of later versions: harmless where they are off.
void account_for_others(const Config& json) {
  json.ignore({"auto_mapping", "peft_version", "revision", "inference_mode", "fan_in_fan_out",
               "layers_pattern", "megatron_core", "loftq_config", "eva_config", "corda_config",
               "lora_ga_config", "qalora_group_size", "runtime_config", "init_lora_weights", "bias"});
  for (const std::string& key : json.unused()) {
    const bool outer = key.find('.') == key.npos;
    if (outer && !json.is_off(key)) json.fail(key, "a setting that heed knows");
  }
}

}  // namespace

ModuleTest targets_test(const ModuleTargets& targets, const std::string& where) {
  if (!targets.expression.empty()) return full_match(targets.expression, where);
  return [names = targets.names](const std::string& module) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return module == name || module.ends_with("." + name);
    });
  };
}

AdapterConfig AdapterConfig::load(const std::filesystem::path& directory) {
  const Config json = Config::load(directory / kAdapterConfig);
  const std::string type = json.required_string("peft_type");
  if (type != "LORA") json.fail("peft_type", "LORA, the method that heed supports");
  refuse_unsupported(json);
  AdapterConfig c;
  c.where = json.where();
  c.options.rank = json.positive_integer("r", 8);
  c.options.alpha = json.number("lora_alpha", 8);
  c.options.dropout = probability(json, "lora_dropout", 0.0);
  c.options.rslora = json.boolean("use_rslora", false);
  c.options.targets = targets_setting(json, "target_modules");
  c.options.train = json.strings("modules_to_save");
  c.excluded = targets_setting(json, "exclude_modules");
  c.base = json.string("base_model_name_or_path", "");
  c.task_type = json.string("task_type", "");
  c.complete = !json.has("layers_to_transform");
  c.ties = json.boolean("ensure_weight_tying", false);
  json.ignore({"layers_to_transform"});
  c.ranks_ = parse_patterns(json, "rank_pattern");
  c.alphas_ = parse_patterns(json, "alpha_pattern");
  for (const auto& [test, rank] : c.ranks_) {
    if (!(rank >= 1 && rank <= kMaxRank && rank == std::floor(rank)))
      json.fail("rank_pattern", "whole numbers of at least 1");
  }
  if (!std::isfinite(c.options.alpha)) json.fail("lora_alpha", "a finite number");
  account_for_others(json);
  return c;
}

AdapterConfig::Patterns AdapterConfig::parse_patterns(const Config& json, const char* key) {
  Patterns patterns;
  const std::optional<Config> object = json.optional_sub(key);
  if (!object) return patterns;
  for (const std::string& name : object->names())
    patterns.emplace_back(full_match("(.*\\.)?(" + name + ")", json.where() + ": " + key),
                          object->required_number(name));
  return patterns;
}

std::int64_t AdapterConfig::rank(const std::string& module) const {
  for (const auto& [matches, rank] : ranks_) {
    if (matches(module)) return static_cast<std::int64_t>(rank);
  }
  return options.rank;
}

double AdapterConfig::scale(const std::string& module) const {
  double alpha = options.alpha;
  for (auto pattern = alphas_.rbegin(); pattern != alphas_.rend(); ++pattern) {
    if (pattern->first(module)) alpha = pattern->second;
  }
  const auto r = static_cast<double>(rank(module));
  return alpha / (options.rslora ? std::sqrt(r) : r);
}

std::string adapter_config_text(const LoraOptions& options, const std::string& base,
                                const std::string& task_type, bool fan_in_fan_out) {
  JsonWriter json(2);
  json.begin_object();
  json.key("alpha_pattern").begin_object().end_object();
  json.field("auto_mapping", nullptr);
  json.field("base_model_name_or_path", base);
  json.field("bias", "none");
  json.field("fan_in_fan_out", fan_in_fan_out);
  json.field("inference_mode", true);
  json.field("init_lora_weights", true);
  if (options.alpha == std::floor(options.alpha) && std::abs(options.alpha) < 1e15) {
    json.field("lora_alpha", static_cast<std::int64_t>(options.alpha));
  } else {
    json.field("lora_alpha", options.alpha);
  }
  json.field("lora_dropout", options.dropout);
  if (options.train.empty()) {
    json.field("modules_to_save", nullptr);
  } else {
    json.field("modules_to_save", options.train);
  }
  json.field("peft_type", "LORA");
  json.field("r", options.rank);
  json.key("rank_pattern").begin_object().end_object();
  json.field("revision", nullptr);
  if (options.targets.expression.empty()) {
    json.field("target_modules", options.targets.names);
  } else {
    json.field("target_modules", options.targets.expression);
  }
  json.field("task_type", task_type.empty() ? std::optional<std::string>() : task_type);
  json.field("use_dora", false);
  json.field("use_rslora", options.rslora);
  return json.end_object().text() + "\n";
}

bool has_adapter(const std::filesystem::path& directory) { return has_entry(directory / kAdapterConfig); }

bool is_adapter(const std::filesystem::path& directory) {
  return has_adapter(directory) && !has_entry(directory / "model.safetensors") &&
         !has_entry(directory / "model.safetensors.index.json");
}

void throw_adapter(const std::filesystem::path& directory) {
  const std::string base = base_of_adapter(directory);
  throw Error(directory.string() + ": expected a model, got a LoRA adapter (give --model " +
              (base.empty() ? "BASE" : base) + " --adapter " + directory.string() +
              "; heed convert makes a model of both)");
}

std::string base_of_adapter(const std::filesystem::path& directory) {
  return AdapterConfig::load(directory).base;
}

bool takes_adapter(const TensorRow& row) { return row.target != AdapterTarget::none; }

const AdapterNames& adapter_names(const TensorRow& row) {
  return row.target == AdapterTarget::token_table ? kTableAdapter : kMapAdapter;
}

std::string module_of(const std::string& tensor) {
  constexpr std::string_view kEnd = ".weight";
  return tensor.ends_with(kEnd) ? tensor.substr(0, tensor.size() - kEnd.size()) : "";
}

std::string owner_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

bool is_within_any(const std::string& module, const std::vector<std::string>& names) {
  return !outermost_module(module, names).empty();
}

std::string outermost_module(const std::string& module, const std::vector<std::string>& names) {
  std::size_t end = std::string::npos;
  for (const std::string& name : names) {
    const std::size_t begin = ("." + module + ".").find("." + name + ".");
    if (begin != std::string::npos) end = std::min(end, begin + name.size());
  }
  return end == std::string::npos ? "" : module.substr(0, end);
}

bool stored_in_first(const TensorRow& row) {
  return row.target == AdapterTarget::linear_in_out || row.target == AdapterTarget::token_table;
}
std::int64_t size_in(const TensorRow& row) { return row.shape[stored_in_first(row) ? 0 : 1]; }
std::int64_t size_out(const TensorRow& row) { return row.shape[stored_in_first(row) ? 1 : 0]; }

void refuse_tied(const std::string& where, const std::string& module, const TensorRow& row) {
  throw Error(where + ": expected a module with a weight of its own, got " + module +
              ", which shares its weight (" + row.name + ")");
}

}  // namespace heed
