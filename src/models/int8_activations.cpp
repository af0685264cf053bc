// Switches products to rounded inputs, and measures what this changes.
#include "models/quantize.h"

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
    weight_.use_int8_activations(int8);
    return weight_.linear(x, {}, Activation::none, layout_).to_vector<float>();
  }

  const Weight& weight_;
  WeightLayout layout_;
  bool compares_ = false;
  double lost_ = 0, total_ = 0;
};

}  // namespace

std::int64_t use_int8_activations(const Weights& weights, bool use) {
  std::int64_t count = 0;
  for (const TensorRow& row : weights.rows()) {
    if (weights[row.name].use_int8_activations(use)) ++count;
  }
  return count;
}

std::vector<QuantizedMap> int8_activation_errors(const Weights& weights, const std::function<void()>& run) {
  const NoGradients guard;
  std::vector<QuantizedMap> maps;
  std::vector<std::unique_ptr<Comparison>> comparisons;
  for (const TensorRow& row : weights.rows()) {
    if (!weights[row.name].use_int8_activations(false)) continue;
    const bool in_first = row.target == AdapterTarget::linear_in_out;
    maps.push_back({row.name});
    comparisons.push_back(std::make_unique<Comparison>(
        weights[row.name], in_first ? WeightLayout::in_out : WeightLayout::out_in));
  }
  run();
  for (std::size_t i = 0; i < maps.size(); ++i) maps[i].output_error = comparisons[i]->error();
  return maps;
}

}  // namespace heed
