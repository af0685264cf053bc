// LoRA adapters of models (heed/nn/weight.h) in the layout of Hugging Face's PEFT: a directory with
// adapter_config.json and adapter_model.safetensors. A module is a linear map or a table of tokens, with the
// name of its weight in the checkpoint without ".weight": bert.encoder.layer.0.attention.self.query.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// Which modules an adapter applies to, as PEFT's target_modules.
struct ModuleTargets {
  std::vector<std::string> names{};  ///< the module's name, or its end after a dot: "query"
  /// Instead of names: a regular expression for the whole name. "all-linear" is every linear map except the
  /// output map and those that are trained whole.
  std::string expression{};
  bool empty() const { return names.empty() && expression.empty(); }
};

/// How a new adapter is made and trained. The defaults are PEFT's.
struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 8;      ///< the product B A is scaled by alpha / rank
  bool rslora = false;   ///< by alpha / sqrt(rank) instead
  double dropout = 0.0;  ///< on the adapter's input, within AdapterDropout
  ModuleTargets targets{};
  /// Modules that are trained whole and saved with the adapter, as PEFT's modules_to_save: by their name, or
  /// any part of it between dots. New heads always are.
  std::vector<std::string> train{};
};

/// An adapter to load, and the factor on what it adds.
struct AdapterSource {
  std::filesystem::path directory;
  double weight = 1.0;
};

/// Returns true if a directory contains an adapter.
bool has_adapter(const std::filesystem::path& directory);
/// Returns true if it contains no model besides.
bool is_adapter(const std::filesystem::path& directory);

/// The base model of an adapter: a directory, or a name on the hub; empty if its config does not name one.
/// Throws Error for a malformed config.
std::string base_of_adapter(const std::filesystem::path& directory);

}  // namespace heed
