// Mixtures of experts in the families that have them: their settings, their rows of the table, their part.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/tensor_table.h"
#include "heed/nn/experts.h"

namespace heed {

struct ExpertsConfig {
  std::int64_t count = 0, chosen = 0, d_ff = 0;
  bool normalise = true;
  std::string block = "mlp";                                           // the name of the block in a layer
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";  // those of an expert's matrices
  std::vector<bool> layers;                // which of them have experts; empty: none
  std::optional<double> loss_coefficient;  // of the load-balancing loss, if it is part of the loss

  bool in_layer(std::int64_t i) const { return !layers.empty() && layers[static_cast<std::size_t>(i)]; }
  /// The keys that all families with experts have. All layers have them.
  static ExpertsConfig parse(const Config& json, std::int64_t layers, std::int64_t count_default,
                             std::int64_t chosen_default);
};

/// Rows below LAYER + block.
void add_experts(TensorTable& table, const std::string& layer, std::int64_t d_model, const ExpertsConfig& c);
Experts experts_part(const Weights& weights, const std::string& layer, Activation activation,
                     const ExpertsConfig& c);

}  // namespace heed
