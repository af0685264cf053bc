// A family of models as a record: the values of model_type, and functions from config.json to the table of
// tensors and to the model. Each family's file ends with a function that returns its record; the registry
// lists these functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "models/model_files.h"

namespace heed {

struct Family {
  std::vector<std::string> model_types;
  TableOfConfig table;
  std::unique_ptr<Model> (*build)(ModelFiles files);
  /// What transformers' class names of each model type begin with (Bert), for families with several heads.
  std::vector<std::string> class_names = {};
  /// Standard deviation of new matrices where neither the config nor the table says; 0: by the table's Init.
  double initializer_range = 0.02;
};

/// The record of a family by three functions: `C parse(const Config&)`, which accounts for every key;
/// `TensorTable table(const C&, const HasTensor&)`; `std::unique_ptr<Model> build(const C&, ModelFiles)`.
template <auto parse, auto table, auto build>
Family family(std::vector<std::string> model_types, std::vector<std::string> class_names = {}) {
  return {std::move(model_types),
          [](const Config& json, const HasTensor& has) { return table(parse(json), has); },
          [](ModelFiles files) -> std::unique_ptr<Model> {
            const auto config = parse(files.config);
            return build(config, std::move(files));
          },
          std::move(class_names)};
}

}  // namespace heed
