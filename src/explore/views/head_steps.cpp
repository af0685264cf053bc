// The steps of one head as JSON.
#include "inspect/head_steps.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "explore/views/views.h"
#include "heed/error.h"
#include "inspect/taps.h"

namespace heed::explore {

nlohmann::json head_steps_json(const ExploredModel& model, const ExploredText& text,
                               const StepsRequest& request, Taps& changes, const std::atomic<bool>& stop) {
  check_head(model, request.head, "head");
  const AttentionKind kind = model.kind_named(request.head.kind);
  const inspect::ScoredAttention attention =
      inspect::scored_attention(model.model(), kind.stack, kind.part, request.head.layer);
  if (attention.attention == nullptr)
    throw Error("head: expected an attention with a softmax of scores, got " + attention.name + " of " +
                model.model().family());
  const AttentionTokens& tokens = text.tokens.at(kind.name);
  inspect::check_position("query", request.query, std::ssize(tokens.queries));
  const inspect::HeadSteps steps = inspect::head_steps(model.model(), text.inputs, attention,
                                                       request.head.head, request.query, changes, stop);
  const auto bytes = [](const Tensor& x) {
    return x.defined() ? nlohmann::json(row_bytes(x)) : nlohmann::json(nullptr);
  };
  const std::int64_t d = steps.q.size(-1), count = std::ssize(tokens.keys);
  const auto numbers = [&](const Tensor& x) { return bytes(shown_keys(x, -1, count)); };
  const auto vectors = [&](const Tensor& x) { return bytes(shown_keys(x, -2, count)); };
  nlohmann::json answer{{"name", attention.name},
                        {"head", request.head.head},
                        {"query", request.query},
                        {"queries", tokens.queries},
                        {"keys", tokens.keys},
                        {"dims", d},
                        {"scale", attention.scale(d)},
                        {"cap", attention.attention->score_cap},
                        {"window", attention.attention->window},
                        {"positions", numbers(steps.positions)},
                        {"rotary", steps.is_rotary},
                        {"q_before", bytes(steps.q_before)},
                        {"k_before", vectors(steps.k_before)},
                        {"q", bytes(steps.q)},
                        {"k", vectors(steps.k)},
                        {"v", vectors(steps.v)},
                        {"scores", numbers(steps.scores)},
                        {"weights", numbers(steps.weights)},
                        {"output", bytes(steps.output)}};
  if (const std::vector<double> weights = inspect::numbers(steps.weights); std::ssize(weights) > count)
    answer["padding"] = std::accumulate(weights.begin() + count, weights.end(), 0.0);
  return answer;
}

}  // namespace heed::explore
