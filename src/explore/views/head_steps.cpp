// Reads queries, keys, scores, weights and values of one head through its taps.
#include "explore/views/views.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/rotary.h"
#include "heed/ops/shape.h"
#include "inspect/taps.h"

namespace heed::explore {
namespace {

using nlohmann::json;

/// Of one query: q and output [d], keys and values [S, d], scores and weights [S].
struct HeadRow {
  Tensor q, k, v, scores, weights, output;
  Tensor rotation;  // [T, r], or undefined
};

HeadRow record_row(const ExploredModel& model, const ExploredText& text, const StepsRequest& request,
                   const AttentionPart& part, Taps& changes, const std::atomic<bool>& stop) {
  const std::int64_t head = request.head.head;
  const std::int64_t group = part.attention->heads / part.attention->kv_heads;
  const TapSelection row{.heads = {head}, .queries = {request.query, request.query + 1}};
  const TapSelection all{.heads = {head / group}};
  HeadRow found;
  Taps taps(&changes);
  const auto keep = [&](const char* what, const TapSelection& selection, Tensor& place) {
    taps.listen(part.name + what, selection,
                [&place](const std::string&, Tensor& value) { place = value.to(DType::f32).clone(); });
  };
  keep(".q", row, found.q);
  keep(".k", all, found.k);
  keep(".v", all, found.v);
  keep(".scores", row, found.scores);
  keep(".weights", row, found.weights);
  keep(".heads", row, found.output);
  Taps with_rotation(&taps);
  with_rotation.listen(part.name + ".rotation", [&](const std::string&, Tensor& value) {
    found.rotation = reshape(value, {value.numel() / value.size(-1), value.size(-1)}).to(DType::f32).clone();
  });
  Context context{.taps = &with_rotation, .stop = &stop};
  model.model().forward(text.inputs, {.logits = false}, context);
  taps.require_all_fired();
  return found;
}

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

/// Beside the product, of each key that is not masked; those of others are 0.
Tensor terms_of_positions(const HeadRow& row, double scale, double cap) {
  const std::vector<double> q = inspect::numbers(row.q), k = inspect::numbers(row.k),
                            scores = inspect::numbers(row.scores);
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

void add_rotation(json& answer, const HeadRow& row, const AttentionPart& part, std::int64_t query) {
  answer["rotary"] = row.rotation.defined();
  answer["q_before"] = answer["k_before"] = nullptr;
  if (!row.rotation.defined()) return;
  const auto back = back_rotation(row.rotation);
  if (!back) return;
  const RotaryLayout layout =
      part.attention->rotary != nullptr ? part.attention->rotary->layout() : RotaryLayout::halves;
  answer["q_before"] = row_bytes(rotary(row.q, slice(*back, 0, query, query + 1), layout));
  answer["k_before"] = row_bytes(rotary(row.k, *back, layout));
}

}  // namespace

json head_steps_json(const ExploredModel& model, const ExploredText& text, const StepsRequest& request,
                     Taps& changes, const std::atomic<bool>& stop) {
  const NoGradients guard;
  check_head(model, request.head, "head");
  const AttentionKind kind = model.kind_named(request.head.kind);
  const AttentionPart part = attention_part(model, kind, request.head.layer);
  if (part.attention == nullptr)
    throw Error("head: expected an attention with a softmax of scores, got " + part.name + " of " +
                model.model().family());
  const AttentionTokens& tokens = text.tokens.at(kind.name);
  inspect::check_position("query", request.query, std::ssize(tokens.queries));
  const HeadRow row = record_row(model, text, request, part, changes, stop);
  const std::int64_t d = row.q.size(-1);
  json answer{{"name", part.name},
              {"head", request.head.head},
              {"query", request.query},
              {"queries", tokens.queries},
              {"keys", tokens.keys},
              {"dims", d},
              {"scale", part.scale(d)},
              {"cap", part.attention->score_cap},
              {"window", part.attention->window},
              {"positions", nullptr},
              {"q", row_bytes(row.q)},
              {"k", row_bytes(row.k)},
              {"v", row_bytes(row.v)},
              {"scores", row_bytes(row.scores)},
              {"weights", row_bytes(row.weights)},
              {"output", row_bytes(row.output)}};
  if (part.has_bias())
    answer["positions"] = row_bytes(terms_of_positions(row, part.scale(d), part.attention->score_cap));
  add_rotation(answer, row, part, request.query);
  return answer;
}

}  // namespace heed::explore
