// The feed-forward network.
#include "heed/nn/feed_forward.h"

#include <algorithm>
#include <string>

#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed {
namespace {

// Of [..., 2F], one half is the gate's.
Tensor gated_halves(const Tensor& both, bool gate_last, Activation activation) {
  const std::int64_t d_ff = both.size(-1) / 2;
  const Tensor first = slice(both, -1, 0, d_ff), second = slice(both, -1, d_ff, 2 * d_ff);
  return gate_last ? gated(second, first, activation) : gated(first, second, activation);
}

Tensor gated_maps(const Linear& gate, const Linear& up, const Tensor& x, Activation activation) {
  const std::vector<Tensor> both = linear_all(x, {&gate, &up});
  return gated(both[0], both[1], activation);
}

// Mixture of experts: routing, one product per expert and matrix, and the loss that balances the load.

using Indices = std::vector<std::int64_t>;

Tensor index_tensor(const Indices& indices) {
  return Tensor::from(indices, {static_cast<std::int64_t>(indices.size())});
}

// The chosen probabilities, [N, k].
Tensor weights_of(const Tensor& probabilities, const Indices& chosen, std::int64_t k, bool normalize) {
  const std::int64_t rows = probabilities.size(0), experts = probabilities.size(1);
  Indices flat = chosen;
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] += static_cast<std::int64_t>(i) / k * experts;
  const Tensor weights =
      reshape(gather(reshape(probabilities, {rows * experts}), 0, index_tensor(flat)), {rows, k});
  return normalize ? weights / sum(weights, -1, true) : weights;
}

}  // namespace

Tensor FeedForward::operator()(const Tensor& x, Pass& pass, PartState*) const {
  const bool drops = pass.context.training && dropout > 0;
  if (!gate && !fused_gate && !drops && !pass.wants("inner")) {
    Tensor y = linear_chain(x, up, activation, down);
    pass.tap("out", y);
    return y;
  }
  Tensor inner = fused_gate ? gated_halves(up(x), gate_last, activation)
                 : gate     ? gated_maps(*gate, up, x, activation)
                            : up(x, activation);  // [..., F]
  pass.tap("inner", inner);
  Tensor y = down(apply_dropout(inner, dropout, pass.context));
  pass.tap("out", y);
  return y;
}

Tensor Experts::operator()(const Tensor& x, Pass& pass, PartState*) const {
  const std::int64_t d_model = x.size(-1), k = chosen;
  const Tensor tokens = reshape(x, {x.numel() / d_model, d_model});  // [N, D]
  Tensor logits = router(tokens);                                    // [N, E]
  pass.tap("router_logits", logits, {});
  pass.collected["router_logits"].push_back(logits);
  const Tensor probabilities = softmax(logits, -1);
  const Indices picks = top_k(probabilities, k).to_vector<std::int64_t>();

  std::vector<Indices> choices(experts.size());  // choice i is that of token i / k
  for (std::size_t i = 0; i < picks.size(); ++i)
    choices[static_cast<std::size_t>(picks[i])].push_back(static_cast<std::int64_t>(i));
  std::vector<Tensor> results;
  Indices place(picks.size());  // of a choice's result among those of all experts
  std::int64_t next = 0;
  const std::string name = pass.name;
  for (std::size_t e = 0; e < experts.size(); ++e) {
    if (choices[e].empty()) continue;
    Indices rows;
    for (const std::int64_t choice : choices[e]) {
      rows.push_back(choice / k);
      place[static_cast<std::size_t>(choice)] = next++;
    }
    if (pass.context.taps != nullptr) pass.name = name + ".experts." + std::to_string(e);
    results.push_back(experts[e](gather(tokens, 0, index_tensor(rows)), pass));
  }
  pass.name = name;
  // Each token's results in the order of its choices, so that the order of the sum is its own.
  const Tensor ordered = gather(concat(results, 0), 0, index_tensor(place));  // [N * k, D]
  const Tensor weights = weights_of(probabilities, picks, k, normalize);
  const std::int64_t count = tokens.size(0);
  Tensor y = reshape(sum(reshape(ordered, {count, k, d_model}) * unsqueeze(weights, 2), 1), x.shape());
  pass.tap("out", y);
  return y;
}

Tensor load_balancing_loss(const std::vector<Tensor>& router_logits, std::int64_t chosen,
                           const Tensor& mask) {
  if (router_logits.empty()) return Tensor::scalar(0.0);
  const Tensor probabilities = softmax(concat(router_logits, 0), -1);  // [L * N, E]
  const std::int64_t rows = probabilities.size(0), experts = probabilities.size(1);
  const Indices picks = top_k(probabilities, chosen).to_vector<std::int64_t>();
  std::vector<double> counts(static_cast<std::size_t>(experts), 0), share(static_cast<std::size_t>(rows), 1);
  if (mask.defined()) {
    const auto present = mask.to_vector<std::int64_t>();
    for (std::size_t row = 0; row < share.size(); ++row) share[row] = present[row % present.size()] != 0;
  }
  double total = 0;
  for (const double counted : share) total += counted;
  for (double& counted : share) counted /= std::max(total, 1.0);
  for (std::size_t i = 0; i < picks.size(); ++i)
    counts[static_cast<std::size_t>(picks[i])] += share[i / static_cast<std::size_t>(chosen)];
  const DType dtype = probabilities.dtype();
  const Tensor mean = sum(probabilities * Tensor::from(share, {rows, 1}).to(dtype), 0);  // [E]
  return sum(mean * Tensor::from(counts, {experts}).to(dtype)) * static_cast<double>(experts);
}

}  // namespace heed
