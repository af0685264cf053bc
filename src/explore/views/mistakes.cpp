// The runs with and without mistakes, as JSON.
#include "explore/views/views.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/ops/shape.h"
#include "inspect/mistakes.h"
#include "inspect/taps.h"
#include "inspect/token_input.h"
#include "plot/labels.h"

namespace heed::explore {
namespace {

using nlohmann::json;

/// A mistake, and the check of heed doctor that sees it.
struct KnownMistake {
  const char *name, *check;
};
constexpr KnownMistake kMistakes[] = {{"positions", "order"},
                                      {"mask", "causality"},
                                      {"softmax-axis", "attention rows"},
                                      {"scale", "scores"},
                                      {"exchange", "order"}};

inspect::Mistakes known_mistakes(const std::vector<std::string>& names) {
  inspect::Mistakes made;
  for (const std::string& name : names) {
    if (std::none_of(std::begin(kMistakes), std::end(kMistakes),
                     [&](const KnownMistake& one) { return one.name == name; }))
      throw Error("traps: expected positions, mask, softmax-axis, scale or exchange, got " +
                  plot::shorten(plot::visible(name), 40));
    made.insert(name);
  }
  return made;
}

ExploredText exchanged(const ExploredText& text, const std::vector<std::int64_t>& places) {
  const std::int64_t count = std::ssize(text.source);
  for (const std::int64_t place : places) inspect::check_position("exchange", place, count);
  ExploredText result = text;
  const auto a = static_cast<std::size_t>(places[0]), b = static_cast<std::size_t>(places[1]);
  std::swap(result.source[a], result.source[b]);
  result.inputs["input_ids"] = inspect::one_row(result.source);
  if (!text.target_ids) result.read = result.source;
  const std::size_t size = result.source.size();
  for (auto& [kind, tokens] : result.tokens) {
    const bool of_target = text.target_ids.has_value() && kind != "encoder";
    if (!of_target && tokens.queries.size() == size) std::swap(tokens.queries[a], tokens.queries[b]);
    if ((!of_target || kind == "cross") && tokens.keys.size() == size)
      std::swap(tokens.keys[a], tokens.keys[b]);
  }
  return result;
}

/// Mean cross-entropy of the text's own next tokens in nats; null for models that do not predict them.
json loss_of(const ExploredText& text, const PredictedRows& rows, bool predicts_next) {
  if (!predicts_next || !rows.logits.defined()) return nullptr;
  std::vector<std::int64_t> next =
      text.target_ids ? *text.target_ids : std::vector(text.source.begin() + 1, text.source.end());
  const std::int64_t count = std::min(std::ssize(next), rows.logits.size(0));
  if (count == 0) return nullptr;
  next.resize(static_cast<std::size_t>(count));
  return cross_entropy(slice(rows.logits, 0, 0, count).contiguous(), Tensor::from(next, {count}))
      .to(DType::f64)
      .item();
}

/// One of the two runs.
struct MistakeRun {
  PredictedRows rows;
  Tensor map;  // [T, S] of the chosen head
};

MistakeRun run_with(const ExploredModel& model, const ExploredText& text, const HeadChoice& head,
                    Taps& mistakes, const std::atomic<bool>& stop) {
  MistakeRun run;
  Taps taps(&mistakes);
  const AttentionKind kind = model.kind_named(head.kind);
  taps.listen(kind.stack + ".layers." + std::to_string(head.layer) + "." + kind.part + ".weights",
              {.heads = {head.head}}, [&](const std::string&, Tensor& value) {
                run.map = reshape(value.contiguous(), {value.size(2), value.size(3)}).to(DType::f32).clone();
              });
  Context context{.taps = &taps, .stop = &stop};
  const TensorMap outputs = model.model().forward(text.inputs, {}, context);
  context.taps = nullptr;
  run.rows = predicted_rows(model, text, outputs, context);
  return run;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.shape() != b.shape()) return 0;
  double largest = 0;
  for (const double value : inspect::numbers(a - b)) largest = std::max(largest, std::abs(value));
  return largest;
}

json run_json(const ExploredModel& model, const ExploredText& text, const MistakeRun& run,
              std::int64_t candidates, const Tensor& before, const std::string& kind) {
  const AttentionTokens& tokens = text.tokens.at(kind);
  return {{"queries", tokens.queries},
          {"keys", tokens.keys},
          {"map", row_bytes(run.map)},
          {"loss", loss_of(text, run.rows, model.architecture() != "encoder")},
          {"predictions", predictions_json(model, text, run.rows, ranked(run.rows, candidates), before)}};
}

}  // namespace

json mistakes_json(const ExploredModel& model, const ExploredText& text, const MistakesRequest& request,
                   const std::atomic<bool>& stop) {
  const NoGradients guard;
  if (text.file) throw Error("traps: expected a text, got a file");
  check_head(model, request.head, "head");
  const inspect::Mistakes made = known_mistakes(request.mistakes);
  if (made.contains("exchange") != request.exchange.has_value())
    throw Error("exchange: expected two positions with the trap exchange, and none without");
  inspect::AttentionMistakes mistakes(model.model(), model.kinds());
  mistakes.check(made, "traps: ");
  Taps none, listeners;
  const MistakeRun sound = run_with(model, text, request.head, none, stop);
  const ExploredText changed = request.exchange ? exchanged(text, *request.exchange) : text;
  mistakes.listen(listeners, made, changed.inputs, stop);
  const MistakeRun wrong = run_with(model, changed, request.head, listeners, stop);
  json checks = json::object();
  for (const KnownMistake& one : kMistakes) {
    if (made.contains(one.name)) checks[one.name] = one.check;
  }
  return {{"checks", std::move(checks)},
          {"difference", largest_difference(sound.rows.logits, wrong.rows.logits)},
          {"map_difference", largest_difference(sound.map, wrong.map)},
          {"sound", run_json(model, text, sound, request.run.candidates, {}, request.head.kind)},
          {"wrong",
           run_json(model, changed, wrong, request.run.candidates, sound.rows.logits, request.head.kind)}};
}

}  // namespace heed::explore
