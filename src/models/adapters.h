// LoRA adapters on the tensors of a model: loading, training, saving and merging.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "heed/models/adapter.h"
#include "heed/models/model.h"
#include "heed/random.h"
#include "models/weights.h"

namespace heed {

/// What is trained of a model with a new adapter.
struct TrainedAdapter {
  LoraOptions options;  // with the modules that are saved whole
  std::string base, task_type;
  bool fan_in_fan_out = false;        // a map is stored as [in, out]
  std::vector<Parameter> parameters;  // by their names in PEFT's file
  /// Writes adapter_config.json and adapter_model.safetensors.
  void save(const std::filesystem::path& directory, DType dtype) const;
};

/// Model::add_adapter.
void add_adapter(Weights& weights, const AdapterSource& source);
/// Whether an adapter replaces a token table, or replaces or adapts the output map that is tied to it: then
/// they are two matrices, as in PEFT.
bool unties(const AdapterSource& source, const TensorRow& table, const std::string& output);
/// Adds an adapter to the map or the table of a row.
void add_adapter_to(const TensorRow& row, const Weight& weight, LoraAdapter adapter);
/// Model::train_adapter, for a model of this task (adapted_task) and name (base_name).
TrainedAdapter train_adapter(Weights& weights, LoraOptions options, const std::string& task_type,
                             const std::string& base, Generator& generator);
/// Model::merge_adapters.
void merge_adapters(Weights& weights);

/// What PEFT calls the task of a model; empty where it has no name for it.
std::string adapted_task(const Model& model);
/// What a model is called whose config.json is this: owner/name in the Hugging Face cache, else its
/// directory.
std::string base_name(const std::filesystem::path& config);

}  // namespace heed
