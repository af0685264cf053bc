// What a model's directory says and what it weighs: read by a family's table, written back as it was.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "heed/io/json.h"
#include "heed/models/tensor_table.h"

namespace heed {

/// A family's way from config.json, whose every key it accounts for, to the table of its tensors.
using TableOfConfig = std::function<TensorTable(const Config&)>;

struct ModelFiles {
  Config config;
  std::string generation;  // text of generation_config.json; empty where there is none
  Weights weights;

  /// The model of a directory, its weights held as `dtype`.
  static ModelFiles load(const std::filesystem::path& directory, DType dtype, const TableOfConfig& table);
  /// A new model with random weights.
  static ModelFiles make(const Config& config, Generator& generator, const TableOfConfig& table);
  /// Writes config.json, generation_config.json and model.safetensors.
  void save(const std::filesystem::path& directory, DType dtype) const;
};

}  // namespace heed
