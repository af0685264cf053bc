// adapter_config.json, and which modules its targets match.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/adapter.h"

namespace heed {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterTensors = "adapter_model.safetensors";

/// Throws Error for an adapter where a model is expected, with advice.
[[noreturn]] void throw_adapter(const std::filesystem::path& directory);

/// Whether a module of this name is meant.
using ModuleTest = std::function<bool(const std::string& module)>;
/// By names (each the module's name, or its end after a dot) or by an expression, which comes from `where`.
/// Throws Error for a malformed expression.
ModuleTest targets_test(const ModuleTargets& targets, const std::string& where);

struct AdapterConfig {
  LoraOptions options;
  std::string base, task_type;
  bool complete = true;  // every module that the targets match must have an adapter
  bool ties = false;     // adapters of tied weights are tied as well
  ModuleTargets excluded;
  std::string where;

  /// Reads the file of a directory. Throws Error for other methods than LoRA, and for settings that heed does
  /// not support.
  static AdapterConfig load(const std::filesystem::path& directory);

  /// The rank of a module and the scale of its adapter.
  std::int64_t rank(const std::string& module) const;
  double scale(const std::string& module) const;

 private:
  using Patterns = std::vector<std::pair<ModuleTest, double>>;
  static Patterns parse_patterns(const Config& json, const char* key);
  Patterns ranks_, alphas_;
};

/// The text of the file for an adapter of these options, whose base has maps stored as [in, out] or not.
std::string adapter_config_text(const LoraOptions& options, const std::string& base,
                                const std::string& task_type, bool fan_in_fan_out);

}  // namespace heed
