// Measures of recorded attention.
#include "heed/inspect/measures.h"

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

void require(const Tensor& recorded, const RecordedLayer& layer, const char* measure) {
  if (recorded.defined()) return;
  throw Error(layer.name + ": expected attention with heads and an output projection for " + measure +
              ", got another (its weights, their mean and their maximum can be shown)");
}

}  // namespace

Tensor value_weighted_norms(const RecordedLayer& layer) {
  const NoGradients guard;
  require(layer.value_norms, layer, "value-weighted norms");
  return layer.weights * unsqueeze(layer.value_norms, 1);
}

Tensor gradient_times_attention(const RecordedLayer& layer) {
  const NoGradients guard;
  require(layer.gradient, layer, "gradients");
  return layer.weights * layer.gradient;
}

std::vector<Tensor> attention_rollout(std::span<const Tensor> weights) {
  const NoGradients guard;
  std::vector<Tensor> result;
  for (const Tensor& layer : weights) {
    const std::int64_t tokens = layer.size(1);
    if (layer.size(2) != tokens) throw Error("rollout: expected weights [H, T, T], got " + layer.str());
    std::vector<float> identity(static_cast<std::size_t>(tokens * tokens));
    for (std::int64_t i = 0; i < tokens; ++i) identity[static_cast<std::size_t>(i * (tokens + 1))] = 0.5f;
    const Tensor step = mean(layer, 0) * 0.5 + Tensor::from(identity, {tokens, tokens});
    const Tensor rows = step / sum(step, 1, true);
    result.push_back(result.empty() ? rows : matmul(rows, result.back()));
  }
  return result;
}

}  // namespace heed
