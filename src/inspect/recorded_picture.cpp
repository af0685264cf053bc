// Copies what was recorded.
#include "inspect/recorded_picture.h"

#include <algorithm>

#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/nn/attention.h"
#include "heed/nn/stack.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed::inspect {
namespace {

std::int64_t heads_of_part(const Part& part) {
  if (const auto* self = part.as<SelfAttention>()) return self->attention.heads;
  if (const auto* cross = part.as<CrossAttention>()) return cross->attention.heads;
  if (const auto* disentangled = part.as<DisentangledAttention>()) return disentangled->attention.heads;
  const auto* linear = part.as<LinearSelfAttention>();
  return linear == nullptr ? 0 : linear->attention.heads;
}

}  // namespace

AttentionMap empty_map(const RecordedLayer& layer, const std::string& measure) {
  AttentionMap map;
  map.name = layer.name;
  map.kind = layer.kind;
  map.layer = layer.layer;
  map.measure = measure;
  map.queries = layer.weights.size(1);
  map.keys = layer.weights.size(2);
  return map;
}

void add_heads(AttentionPicture& picture, const RecordedLayer& layer, const Tensor& values,
               const std::string& measure) {
  AttentionMap map = empty_map(layer, measure);
  for (map.head = 0; map.head < values.size(0); ++map.head) {
    map.weights = slice(values, 0, map.head, map.head + 1).to_vector<float>();
    picture.maps.push_back(map);
  }
}

void add_rollout(AttentionPicture& picture, const AttentionRecord& record,
                 const std::vector<std::int64_t>& layers) {
  std::vector<std::string> done;
  for (const RecordedLayer& first : record.layers) {
    const bool pools = first.weights.size(1) != first.weights.size(2);
    if (first.kind == "cross" || pools || std::find(done.begin(), done.end(), first.kind) != done.end())
      continue;
    done.push_back(first.kind);
    std::vector<const RecordedLayer*> of_kind;
    std::vector<Tensor> weights;
    for (const RecordedLayer& layer : record.layers) {
      if (layer.kind != first.kind) continue;
      of_kind.push_back(&layer);
      weights.push_back(layer.weights);
    }
    const std::vector<Tensor> rollouts = attention_rollout(weights);
    for (std::size_t i = 0; i < rollouts.size(); ++i) {
      const std::int64_t index = of_kind[i]->layer;
      if (!layers.empty() && std::find(layers.begin(), layers.end(), index) == layers.end()) continue;
      AttentionMap map = empty_map(*of_kind[i], "rollout");
      map.weights = rollouts[i].to_vector<float>();
      picture.maps.push_back(std::move(map));
    }
  }
}

void add_facts(AttentionPicture& picture, const AttentionRecord& record, std::int64_t most_vectors) {
  std::int64_t numbers = 0;
  for (const RecordedLayer& layer : record.layers)
    numbers += layer.q.defined() ? layer.q.numel() + layer.k.numel() : 0;
  for (const RecordedLayer& layer : record.layers) {
    for (std::int64_t head = 0; layer.value_norms.defined() && head < layer.weights.size(0); ++head)
      picture.facts.push_back({layer.kind,
                               layer.layer,
                               head,
                               slice(layer.value_norms, 0, head, head + 1).to_vector<float>(),
                               {}});
    if (!layer.q.defined() || numbers > most_vectors) continue;
    picture.vectors.push_back({layer.kind, layer.layer, layer.q.size(0), layer.k.size(0), layer.q.size(2),
                               layer.q.to_vector<float>(), layer.k.to_vector<float>()});
  }
}

std::vector<std::int64_t> attention_heads(const Model& model, const AttentionKind& kind) {
  std::vector<std::int64_t> heads;
  const Stack* stack = model.stack_named(kind.stack);
  if (stack == nullptr) return heads;
  for (const Layer& layer : stack->layers) {
    std::int64_t& of_layer = heads.emplace_back(0);
    for (const ResidualStep& step : layer.steps) {
      for (const Sublayer& sublayer : step.sublayers) {
        if (sublayer.name == kind.part) of_layer = heads_of_part(sublayer.part);
      }
    }
  }
  return heads;
}

std::map<std::string, AttentionSize> attention_sizes(const Model& model,
                                                     const std::vector<AttentionKind>& kinds) {
  std::map<std::string, AttentionSize> sizes;
  for (const AttentionKind& kind : kinds) {
    AttentionSize size;
    for (const std::int64_t heads : attention_heads(model, kind)) {
      size.layers += heads > 0 ? 1 : 0;
      size.heads = std::max(size.heads, heads);
    }
    if (size.layers > 0) sizes[kind.name] = size;
  }
  return sizes;
}

const char* name_of(EncoderHead head) {
  switch (head) {
    case EncoderHead::none: return "none";
    case EncoderHead::masked_lm: return "masked_lm";
    case EncoderHead::sequence: return "sequence";
    case EncoderHead::token: return "token";
    case EncoderHead::span: return "span";
    case EncoderHead::ctc: return "ctc";
  }
  HEED_ASSERT(false, "unknown head");
}

const char* task_of(const Model& model) {
  return visit(
      model, [](const EncoderModel& encoder) { return name_of(encoder.head()); },
      [](const EncoderDecoderModel&) { return "encoder_decoder"; },
      [](const DualEncoderModel&) { return "towers"; }, [](const DecoderModel&) { return "causal_lm"; });
}

std::vector<std::vector<RankedToken>> ranked_tokens(const Tensor& logits, std::int64_t count) {
  const Tensor rows = logits.to(DType::f32).contiguous();
  const Tensor shares = softmax(rows, 1).contiguous();
  const std::int64_t vocabulary = rows.size(1);
  count = std::min(count, vocabulary);
  const auto ids = top_k(shares, count).to_vector<std::int64_t>();
  std::vector<std::vector<RankedToken>> ranked(static_cast<std::size_t>(rows.size(0)));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(count);
    const std::int64_t at = static_cast<std::int64_t>(row) * vocabulary + ids[i];
    ranked[row].push_back({ids[i], shares.data<float>()[at], rows.data<float>()[at]});
  }
  return ranked;
}

}  // namespace heed::inspect
