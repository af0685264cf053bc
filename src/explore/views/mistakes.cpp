// Listeners that make mistakes, and the runs with and without them.
#include "explore/views/views.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "inspect/taps.h"
#include "ops/attention.h"
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

using Mistakes = std::set<std::string>;

Mistakes known_mistakes(const std::vector<std::string>& names) {
  Mistakes made;
  for (const std::string& name : names) {
    if (std::none_of(std::begin(kMistakes), std::end(kMistakes),
                     [&](const KnownMistake& one) { return one.name == name; }))
      throw Error("traps: expected positions, mask, softmax-axis, scale or exchange, got " +
                  plot::shorten(plot::visible(name), 40));
    made.insert(name);
  }
  return made;
}

/// An attention, with what its listeners hear during the pass.
struct MistakenPart {
  AttentionPart part;
  bool is_causal = false;
  Tensor q = {}, k = {}, v = {}, scores = {};
};

std::vector<MistakenPart> parts_of(const ExploredModel& model) {
  std::vector<MistakenPart> parts;
  for (const AttentionKind& kind : model.kinds()) {
    const std::int64_t layers = std::ssize(model.heads(kind.name));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const AttentionPart part = attention_part(model, kind, layer);
      if (part.attention != nullptr) parts.push_back({.part = part, .is_causal = kind.name == "decoder"});
    }
  }
  return parts;
}

void check_mistakes(const Mistakes& made, const std::vector<MistakenPart>& parts,
                    const ExploredModel& model) {
  const auto require = [&](const char* name, bool can, const std::string& expected) {
    if (made.contains(name) && !can)
      throw Error(std::string("traps: ") + name + ": expected " + expected + ", got " +
                  model.model().family());
  };
  const auto any = [&](auto test) { return std::any_of(parts.begin(), parts.end(), test); };
  require("softmax-axis", !parts.empty(), "a model with softmax attention");
  require("mask", any([](const MistakenPart& one) { return one.is_causal; }),
          "a decoder, whose mask hides later tokens (an encoder sees them anyway)");
  require("scale", any([](const MistakenPart& one) { return one.part.attention->scale != 1.0; }),
          "a model that multiplies scores by a scale");
}

/// Scores without the mask, and without terms of positions where those are off.
Tensor plain_scores(const MistakenPart& one, bool with_positions) {
  const MultiHeadAttention& attention = *one.part.attention;
  AttentionOptions options;
  options.scale = attention.scale;
  options.score_cap = attention.score_cap;
  if (with_positions && attention.bias != nullptr) attention.bias->add_to(options, one.q, one.k);
  AttentionWeights scores;
  attention_scores(one.q, one.k, one.v, options, scores);
  return scores.values;
}

/// Changes scores [1, H, T, S]: `change(score, plain, t, s)` returns the new one.
template <class Change>
void change_scores(Tensor& scores, const Tensor& plain, Change change) {
  const Tensor made = scores.to(DType::f32).clone();
  const std::int64_t queries = made.size(2), keys = made.size(3);
  float* to = made.data<float>();
  const Tensor other = plain.to(DType::f32).contiguous();
  const float* from = other.data<float>();
  for (std::int64_t i = 0; i < made.numel(); ++i)
    to[i] = change(to[i], from[i], i / keys % queries, i % keys);
  scores = made.to(scores.dtype());
}

void listen_to_scores(Taps& taps, MistakenPart& one, const Mistakes& made) {
  const bool free = made.contains("positions"), unmasked = made.contains("mask") && one.is_causal;
  const bool axis = made.contains("softmax-axis"), unscaled = made.contains("scale") && one.part.disentangled;
  if (!(free && one.part.has_bias()) && !unmasked && !axis && !unscaled) return;
  const auto keep = [&](const char* what, Tensor& place) {
    taps.listen(one.part.name + what, [&place](const std::string&, Tensor& value) { place = value; });
  };
  keep(".q", one.q);
  keep(".k", one.k);
  keep(".v", one.v);
  taps.listen(
      one.part.name + ".scores", [&one, free, unmasked, unscaled](const std::string&, Tensor& scores) {
        if (free && one.part.has_bias())
          change_scores(scores, plain_scores(one, false), [](float score, float plain, auto, auto) {
            return std::isfinite(score) ? plain : score;
          });
        if (unmasked)
          change_scores(
              scores, plain_scores(one, !free),
              [](float score, float plain, std::int64_t t, std::int64_t s) { return s > t ? plain : score; });
        if (unscaled) scores = scores * (1 / one.part.scale(one.q.size(-1)));
        one.scores = scores;
      });
  if (!axis) return;
  taps.listen(one.part.name + ".weights", [&one](const std::string&, Tensor& weights) {
    weights = softmax(one.scores.contiguous(), 2).to(weights.dtype());
  });
}

/// What the layers of a stack read for each token of a text that stands alone: f32 [1, T, D].
Tensor lone_embeddings(const ExploredModel& model, const TensorMap& tensors, const std::string& ids,
                       const std::string& stack, const std::atomic<bool>& stop) {
  TensorMap lone;
  const std::int64_t count = tensors.at(ids).numel();
  for (const auto& [name, tensor] : tensors) {
    if (name != ids && name.starts_with("decoder_") != ids.starts_with("decoder_")) continue;
    lone[name] = reshape(tensor.contiguous(), {count, 1});
  }
  for (const char* other : {"input_ids", "decoder_input_ids"}) {
    if (tensors.contains(other) && !lone.contains(other)) lone[other] = Tensor::zeros({count, 1}, DType::i64);
  }
  Tensor found;
  Taps taps;
  taps.listen(stack + ".embed", [&](const std::string&, Tensor& value) {
    found = reshape(value.contiguous(), {1, count, value.size(2)}).clone();
  });
  Context context{.taps = &taps, .stop = &stop};
  model.model().forward(lone, {.logits = false}, context);
  return found;
}

void listen_without_positions(Taps& taps, const ExploredModel& model, const TensorMap& tensors,
                              const std::atomic<bool>& stop) {
  for (const char* stack : {"encoder", "decoder"}) {
    if (model.model().stack_named(stack) == nullptr) continue;
    const bool is_target = tensors.contains("decoder_input_ids") && stack == std::string("decoder");
    const Tensor embedded =
        lone_embeddings(model, tensors, is_target ? "decoder_input_ids" : "input_ids", stack, stop);
    taps.listen(std::string(stack) + ".embed", replace_by(embedded));
  }
  taps.listen("*.rotation", [](const std::string&, Tensor& value) {  // of the first token, for all
    const int axis = static_cast<int>(value.rank()) - 2;
    value = broadcast_to(slice(value, axis, 0, 1), value.shape()).contiguous();
  });
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
  const Mistakes made = known_mistakes(request.mistakes);
  if (made.contains("exchange") != request.exchange.has_value())
    throw Error("exchange: expected two positions with the trap exchange, and none without");
  std::vector<MistakenPart> parts = parts_of(model);
  check_mistakes(made, parts, model);
  Taps none, mistakes;
  const MistakeRun sound = run_with(model, text, request.head, none, stop);
  const ExploredText changed = request.exchange ? exchanged(text, *request.exchange) : text;
  if (made.contains("positions")) listen_without_positions(mistakes, model, changed.inputs, stop);
  for (MistakenPart& one : parts) {
    if (made.contains("scale") && !one.part.disentangled)
      mistakes.listen(one.part.name + ".q",
                      [&one](const std::string&, Tensor& q) { q = q * (1 / one.part.scale(q.size(-1))); });
    listen_to_scores(mistakes, one, made);
  }
  const MistakeRun wrong = run_with(model, changed, request.head, mistakes, stop);
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
