// Switches products to rounded inputs, and measures what this changes.
#include "models/quantize.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "heed/autograd.h"

namespace heed {
namespace {

// Compares the two products of a weight for every input that it is given.
class Comparison {
 public:
  Comparison(const Weight& weight, WeightLayout layout) : weight_(weight), layout_(layout) {
    weight_.observe([this](const Tensor& x) {
      if (!compares_) compare(x);
    });
  }
  ~Comparison() { weight_.observe({}); }
  Comparison(const Comparison&) = delete;
  double error() const { return total_ == 0 ? 0 : std::sqrt(lost_ / total_); }

 private:
  void compare(const Tensor& x) {
    compares_ = true;  // the products below are not for the observer
    const std::vector<float> rounded = product(x, true), exact = product(x, false);
    compares_ = false;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double difference = double{exact[i]} - double{rounded[i]};
      lost_ += difference * difference;
      total_ += double{exact[i]} * double{exact[i]};
    }
  }
  std::vector<float> product(const Tensor& x, bool int8) const {
    weight_.use_activations(int8 ? Activations::int8 : Activations::f32);
    return weight_.linear(x, {}, Activation::none, layout_).to_vector<float>();
  }

  const Weight& weight_;
  WeightLayout layout_;
  bool compares_ = false;
  double lost_ = 0, total_ = 0;
};

WeightLayout layout_of(const TensorRow& row) {
  return row.target == AdapterTarget::linear_in_out ? WeightLayout::in_out : WeightLayout::out_in;
}

}  // namespace

std::int64_t use_activations(const Weights& weights, Activations type) {
  std::int64_t count = 0;
  for (const TensorRow& row : weights.rows()) {
    if (weights[row.name].use_activations(type)) ++count;
  }
  return count;
}

bool takes_int8(const Weights& weights) {
  return std::any_of(weights.rows().begin(), weights.rows().end(),
                     [&](const TensorRow& row) { return weights[row.name].takes_int8(layout_of(row)); });
}

std::vector<QuantizedMap> int8_activation_errors(const Weights& weights, const std::function<void()>& run) {
  const NoGradients guard;
  std::vector<QuantizedMap> maps;
  std::vector<std::unique_ptr<Comparison>> comparisons;
  for (const TensorRow& row : weights.rows()) {
    if (!weights[row.name].use_activations(Activations::f32)) continue;
    maps.push_back({row.name});
    comparisons.push_back(std::make_unique<Comparison>(weights[row.name], layout_of(row)));
  }
  run();
  for (std::size_t i = 0; i < maps.size(); ++i) maps[i].output_error = comparisons[i]->error();
  return maps;
}

}  // namespace heed
