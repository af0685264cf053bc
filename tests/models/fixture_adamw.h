// AdamW with the settings of a fixture's training curve.
#pragma once

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "heed/models/model.h"
#include "kernels/optimizer.h"

namespace heed {

/// Updates every parameter of a model that has a gradient, with kernels::adamw.
class FixtureAdamW {
 public:
  FixtureAdamW(const Model& model, const nlohmann::json& settings) : parameters_(model.parameters()) {
    options_.lr = settings.at("learning_rate");
    options_.beta1 = settings.at("betas").at(0);
    options_.beta2 = settings.at("betas").at(1);
    options_.eps = settings.at("eps");
    options_.weight_decay = settings.at("weight_decay");
    for (const Parameter& p : parameters_)
      moments_.emplace_back(Tensor::zeros(p.tensor.shape()), Tensor::zeros(p.tensor.shape()));
  }

  /// One step, which takes the gradients.
  void step() {
    for (std::size_t i = 0; i < moments_.size(); ++i) {
      Tensor& p = parameters_[i].tensor;
      if (!p.grad().defined()) continue;
      kernels::adamw(p.data<float>(), p.grad().data<float>(), moments_[i].first.data<float>(),
                     moments_[i].second.data<float>(), p.numel(), options_);
      p.zero_grad();
    }
    ++options_.step;
  }

 private:
  std::vector<Parameter> parameters_;
  std::vector<std::pair<Tensor, Tensor>> moments_;
  kernels::AdamW options_;
};

}  // namespace heed
