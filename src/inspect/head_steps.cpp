// Reads queries, keys, scores, weights and values of one head through its taps.
#include "inspect/head_steps.h"

#include <cmath>
#include <optional>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/rotary.h"
#include "heed/ops/shape.h"
#include "inspect/taps.h"

namespace heed::inspect {
namespace {

/// What turns a rotation back; nothing where it stretches as well (YaRN's factor).
std::optional<Tensor> back_rotation(const Tensor& rotation) {
  constexpr float kTolerance = 1e-3f;
  const Tensor back = rotation.clone();
  const std::int64_t half = rotation.size(1) / 2;
  for (std::int64_t t = 0; t < rotation.size(0); ++t) {
    float* row = back.data<float>() + t * 2 * half;
    for (std::int64_t i = 0; i < half; ++i) {
      if (std::abs(row[i] * row[i] + row[half + i] * row[half + i] - 1) > kTolerance) return std::nullopt;
      row[half + i] = -row[half + i];
    }
  }
  return back;
}

Tensor terms_of_positions(const HeadSteps& steps, double scale, double cap) {
  const std::vector<double> q = numbers(steps.q), k = numbers(steps.k), scores = numbers(steps.scores);
  std::vector<float> terms;
  for (std::size_t s = 0; s < scores.size(); ++s) {
    double product = 0;
    for (std::size_t i = 0; i < q.size(); ++i) product += q[i] * k[s * q.size() + i];
    product *= scale;
    if (cap > 0) product = cap * std::tanh(product / cap);
    terms.push_back(std::isfinite(scores[s]) ? static_cast<float>(scores[s] - product) : 0.0f);
  }
  return Tensor::from(terms, {std::ssize(terms)});
}

void rotate_back(HeadSteps& steps, const Tensor& rotation, const MultiHeadAttention& attention,
                 std::int64_t query) {
  const auto back = back_rotation(rotation);
  if (!back) return;
  const RotaryLayout layout = attention.rotary != nullptr ? attention.rotary->layout() : RotaryLayout::halves;
  steps.q_before = rotary(steps.q, slice(*back, 0, query, query + 1), layout);
  steps.k_before = rotary(steps.k, *back, layout);
}

}  // namespace

HeadSteps head_steps(const Model& model, const TensorMap& inputs, const ScoredAttention& attention,
                     std::int64_t head, std::int64_t query, Taps& changes, const std::atomic<bool>& stop) {
  const NoGradients guard;
  const TapSelection row{.heads = {head}, .queries = {query, query + 1}};
  const TapSelection all{.heads = {attention.key_head(head)}};
  HeadSteps steps;
  Tensor rotation;
  Taps taps(&changes);
  const auto keep = [&](const char* what, const TapSelection& selection, Tensor& place) {
    taps.listen(attention.name + what, selection,
                [&place](const std::string&, Tensor& value) { place = value.to(DType::f32).clone(); });
  };
  keep(".q", row, steps.q);
  keep(".k", all, steps.k);
  keep(".v", all, steps.v);
  keep(".scores", row, steps.scores);
  keep(".weights", row, steps.weights);
  keep(".heads", row, steps.output);
  Taps with_rotation(&taps);
  with_rotation.listen(attention.name + ".rotation", [&](const std::string&, Tensor& value) {
    rotation = reshape(value, {value.numel() / value.size(-1), value.size(-1)}).to(DType::f32).clone();
  });
  Context context{.taps = &with_rotation, .stop = &stop};
  model.forward(inputs, {.logits = false}, context);
  taps.require_all_fired();
  if (attention.has_positions())
    steps.positions =
        terms_of_positions(steps, attention.scale(steps.q.size(-1)), attention.attention->score_cap);
  steps.is_rotary = rotation.defined();
  if (steps.is_rotary) rotate_back(steps, rotation, *attention.attention, query);
  return steps;
}

}  // namespace heed::inspect
