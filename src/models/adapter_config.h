// adapter_config.json; which modules its targets match; the modules of a model as adapters name them, and the
// names of their tensors in PEFT's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/adapter.h"
#include "models/weights.h"

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

inline const std::string kAdapterPrefix = "base_model.model.";

/// How the names of an adapter's two matrices end.
struct AdapterNames {
  std::string a, b;
};
/// base_model.model.MODULE.lora_A.weight [r, in], ....lora_B.weight [out, r]; of a token table
/// ....lora_embedding_A [r, V], ....lora_embedding_B [D, r].
inline const AdapterNames kMapAdapter{".lora_A.weight", ".lora_B.weight"},
    kTableAdapter{".lora_embedding_A", ".lora_embedding_B"};
const AdapterNames& adapter_names(const TensorRow& row);

/// Whether an adapter can be added to a row: to a linear map or a token table.
bool takes_adapter(const TensorRow& row);
/// Whether the weight is [in, out], as a table is with in = V and out = D.
bool stored_in_first(const TensorRow& row);
std::int64_t size_in(const TensorRow& row);
std::int64_t size_out(const TensorRow& row);
/// The module of a weight; empty for other tensors.
std::string module_of(const std::string& tensor);
/// The module to which a tensor belongs.
std::string owner_of(const std::string& tensor);
/// Whether `module` is one of `names` or within it: each is a module's name, or any part of it between dots.
bool is_within_any(const std::string& module, const std::vector<std::string>& names);
/// The whole name of the outermost of these, which is `module` or around it; empty if it is within none. PEFT
/// wraps every module whose name ends like one of modules_to_save ("norm" is also input_layernorm), so an
/// adapter's file has whole names.
std::string outermost_module(const std::string& module, const std::vector<std::string>& names);
/// Throws Error for a module whose weight is that of another one.
[[noreturn]] void refuse_tied(const std::string& where, const std::string& module, const TensorRow& row);

}  // namespace heed
