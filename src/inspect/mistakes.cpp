// Listeners to queries, scores, weights, embeddings and rotations.
#include "inspect/mistakes.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "inspect/recorded_picture.h"
#include "ops/attention.h"

namespace heed::inspect {
namespace {

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

/// What the layers of a stack read for each token of a text that stands alone: f32 [1, T, D].
Tensor lone_embeddings(const Model& model, const TensorMap& tensors, const std::string& ids,
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
  model.forward(lone, {.logits = false}, context);
  return found;
}

void listen_without_positions(Taps& taps, const Model& model, const TensorMap& tensors,
                              const std::atomic<bool>& stop) {
  for (const char* stack : {"encoder", "decoder"}) {
    if (model.stack_named(stack) == nullptr) continue;
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

}  // namespace

AttentionMistakes::AttentionMistakes(const Model& model, const std::vector<AttentionKind>& kinds)
    : model_(model) {
  for (const AttentionKind& kind : kinds) {
    const std::int64_t layers = std::ssize(attention_heads(model, kind));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const ScoredAttention at = scored_attention(model, kind.stack, kind.part, layer);
      if (at.attention != nullptr) attentions_.push_back({.at = at, .is_causal = kind.name == "decoder"});
    }
  }
}

void AttentionMistakes::check(const Mistakes& made, const std::string& where) const {
  const auto require = [&](const char* name, bool can, const std::string& expected) {
    if (made.contains(name) && !can)
      throw Error(where + name + ": expected " + expected + ", got " + model_.family());
  };
  const auto any = [&](auto test) { return std::any_of(attentions_.begin(), attentions_.end(), test); };
  require("softmax-axis", !attentions_.empty(), "a model with softmax attention");
  require("mask", any([](const Heard& one) { return one.is_causal; }),
          "a decoder, whose mask hides later tokens (an encoder sees them anyway)");
  require("scale", any([](const Heard& one) { return one.at.attention->scale != 1.0; }),
          "a model that multiplies scores by a scale");
}

/// Scores without the mask, and without terms of positions where those are off.
Tensor AttentionMistakes::plain_scores(const Heard& one, bool with_positions) {
  const MultiHeadAttention& attention = *one.at.attention;
  AttentionOptions options;
  options.scale = attention.scale;
  options.score_cap = attention.score_cap;
  if (with_positions && attention.bias != nullptr) attention.bias->add_to(options, one.q, one.k);
  AttentionWeights scores;
  attention_scores(one.q, one.k, one.v, options, scores);
  return scores.values;
}

void AttentionMistakes::listen_to_scores(Taps& taps, Heard& one, const Mistakes& made) {
  const bool free = made.contains("positions"), unmasked = made.contains("mask") && one.is_causal;
  const bool axis = made.contains("softmax-axis"), unscaled = made.contains("scale") && one.at.disentangled;
  if (!(free && one.at.has_positions()) && !unmasked && !axis && !unscaled) return;
  const auto keep = [&](const char* what, Tensor& place) {
    taps.listen(one.at.name + what, [&place](const std::string&, Tensor& value) { place = value; });
  };
  keep(".q", one.q);
  keep(".k", one.k);
  keep(".v", one.v);
  taps.listen(one.at.name + ".scores", [&one, free, unmasked, unscaled](const std::string&, Tensor& scores) {
    if (free && one.at.has_positions())
      change_scores(scores, plain_scores(one, false), [](float score, float plain, auto, auto) {
        return std::isfinite(score) ? plain : score;
      });
    if (unmasked)
      change_scores(
          scores, plain_scores(one, !free),
          [](float score, float plain, std::int64_t t, std::int64_t s) { return s > t ? plain : score; });
    if (unscaled) scores = scores * (1 / one.at.scale(one.q.size(-1)));
    one.scores = scores;
  });
  if (!axis) return;
  taps.listen(one.at.name + ".weights", [&one](const std::string&, Tensor& weights) {
    weights = softmax(one.scores.contiguous(), 2).to(weights.dtype());
  });
}

void AttentionMistakes::listen(Taps& taps, const Mistakes& made, const TensorMap& inputs,
                               const std::atomic<bool>& stop) {
  if (made.contains("positions")) listen_without_positions(taps, model_, inputs, stop);
  for (Heard& one : attentions_) {
    if (made.contains("scale") && !one.at.disentangled)
      taps.listen(one.at.name + ".q",
                  [&one](const std::string&, Tensor& q) { q = q * (1 / one.at.scale(q.size(-1))); });
    listen_to_scores(taps, one, made);
  }
}

}  // namespace heed::inspect
