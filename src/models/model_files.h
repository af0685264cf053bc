// What a model's directory contains: read by a family's table, written back as it was.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "heed/io/json.h"
#include "heed/models/tensor_table.h"
#include "models/adapters.h"

namespace heed {

/// Whether the files of a checkpoint have a tensor of this name. A new model has all.
using HasTensor = std::function<bool(const std::string&)>;
using TableOfConfig = TensorTable (*)(const Config&, const HasTensor&);

struct ModelFiles {
  Config config;
  std::string generation;  // text of generation_config.json; empty where there is none
  Weights weights;
  std::optional<TrainedAdapter> trained = {};  // saved in the place of the model

  /// The model of a directory by its config, with weights held as `dtype`; with `new_head`, a head that the
  /// files lack is initialized from it.
  static ModelFiles load(const Config& config, const std::filesystem::path& directory, DType dtype,
                         TableOfConfig table, double initializer_range = 0, Generator* new_head = nullptr);
  /// A new model with random weights. `initializer_range` is the standard deviation of its matrices where the
  /// config says nothing; 0: as in the table.
  static ModelFiles make(const Config& config, Generator& generator, TableOfConfig table,
                         double initializer_range);
  /// Writes config.json, model.safetensors and, if the model `generates`, generation_config.json; of a
  /// trained adapter, that and config.json.
  void save(const std::filesystem::path& directory, DType dtype, bool generates) const;
};

}  // namespace heed
