// Maps of each measure, and what the page shows beside them.
#include "cli/attend_picture.h"

#include <algorithm>
#include <cmath>

#include "cli/terminal.h"
#include "heed/inspect/measures.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed::cli {
namespace {

constexpr std::int64_t kCandidates = 6;

bool has(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

void add_rollout(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& choice,
                 const std::string& kind) {
  std::vector<Tensor> weights;
  for (const RecordedLayer& layer : record.layers) {
    if (layer.kind == kind) weights.push_back(layer.weights);
  }
  const std::vector<Tensor> rollouts = attention_rollout(weights);
  MapChoice mean;
  mean.mean_of_heads = true;
  for (const RecordedLayer& layer : record.layers) {
    if (layer.kind != kind || !has(choice.layers, layer.layer)) continue;
    const Tensor& rollout = rollouts[static_cast<std::size_t>(layer.layer)];
    add_maps(picture, layer.name, kind, layer.layer, reshape(rollout, {1, rollout.size(0), rollout.size(1)}),
             mean, "rollout");
  }
}

// The most probable tokens at each position of logits [1, T, V].
std::vector<std::vector<Candidate>> candidates_of(const Tensor& logits, const AttendSource& source) {
  const Tensor rows =
      softmax(reshape(logits.to(DType::f32), {logits.size(1), logits.size(2)}), 1).contiguous();
  const std::int64_t count = std::min(kCandidates, rows.size(1));
  const Tensor best = top_k(rows, count);
  const auto ids = best.to_vector<std::int64_t>();
  const float* probabilities = rows.data<float>();
  std::vector<std::vector<Candidate>> steps(static_cast<std::size_t>(rows.size(0)));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(count);
    const float probability = probabilities[static_cast<std::int64_t>(row) * rows.size(1) + ids[i]];
    steps[row].push_back({name_of(ids[i], source), probability});
  }
  return steps;
}

// Pixels from numbers, scaled from the smallest to the largest; `channel(c, y, x)` gives them.
template <class Channel>
std::string picture_of(std::int64_t height, std::int64_t width, const std::vector<float>& numbers,
                       Channel channel) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const float range = *high > *low ? *high - *low : 1;
  std::vector<std::uint8_t> rgb;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c)
        rgb.push_back(static_cast<std::uint8_t>(std::lround(255 * (channel(c, y, x) - *low) / range)));
    }
  }
  return encode_png(width, height, rgb);
}

// The image or spectrogram whose parts are `keys`.
InputImage image_of(const TensorMap& tensors, std::int64_t keys) {
  const auto grid = patch_grid(tensors, keys);
  if (!grid) return {};
  if (const auto found = tensors.find("pixel_values"); found != tensors.end()) {
    const Tensor& pixels = found->second;  // [1, C, H, W]
    const std::vector<float> numbers = pixels.to(DType::f32).to_vector<float>();
    const std::int64_t channels = pixels.size(1), height = pixels.size(2), width = pixels.size(3);
    return {
        picture_of(
            height, width, numbers,
            [&](std::int64_t c, std::int64_t y, std::int64_t x) {
              return numbers[static_cast<std::size_t>((std::min(c, channels - 1) * height + y) * width + x)];
            }),
        grid->rows, grid->columns, grid->first};
  }
  if (const auto found = tensors.find("input_features"); found != tensors.end()) {
    const std::vector<float> numbers = found->second.to(DType::f32).to_vector<float>();
    const std::int64_t bins = found->second.size(1), frames = found->second.size(2);
    return {picture_of(bins, frames, numbers,
                       [&](std::int64_t, std::int64_t y, std::int64_t x) {
                         return numbers[static_cast<std::size_t>((bins - 1 - y) * frames + x)];
                       }),
            grid->rows, grid->columns, grid->first};
  }
  return {};
}

bool predicts_tokens(const AttendSource& source) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&source.model);
  return encoder == nullptr || encoder->head() == EncoderHead::masked_lm;
}

}  // namespace

// The most probable token or label of a row of logits.
std::int64_t best_token(const Tensor& logits, std::int64_t position) {
  const Tensor row = logits.rank() == 3 ? slice(logits, 1, position, position + 1) : logits;
  return argmax(reshape(row.contiguous(), {row.numel()}), 0).to_vector<std::int64_t>().front();
}

std::string name_of(std::int64_t token, const AttendSource& source) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&source.model);
  if (encoder != nullptr && static_cast<std::size_t>(token) < encoder->labels().size() &&
      !predicts_tokens(source))
    return encoder->labels()[static_cast<std::size_t>(token)];
  if (source.tokenizer != nullptr && token < source.tokenizer->vocab_size() && predicts_tokens(source))
    return shown_tokens({source.tokenizer->token(token)}, source.tokenizer).front();
  return std::to_string(token);
}

void add_measure(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& chosen,
                 const std::string& measure) {
  MapChoice choice = chosen;
  if (measure == "rollout") {
    std::vector<std::string> kinds;
    for (const RecordedLayer& layer : record.layers) {
      if (layer.kind == "cross" || (!kinds.empty() && kinds.back() == layer.kind)) continue;
      kinds.push_back(layer.kind);
      add_rollout(picture, record, choice, layer.kind);
    }
    return;
  }
  if (measure == "mean" || measure == "max") {
    choice.mean_of_heads = measure == "mean";
    choice.max_of_heads = measure == "max";
  }
  for (const RecordedLayer& layer : record.layers) {
    if (!has(choice.layers, layer.layer)) continue;
    const auto add = [&](const Tensor& values, const std::string& name) {
      add_maps(picture, layer.name, layer.kind, layer.layer, values, choice, name);
    };
    if (measure == "norms") {
      add(value_weighted_norms(layer), "norms");
    } else if (measure == "gradient") {
      add(gradient_times_attention(layer), "gradient");
    } else {
      add(layer.weights, "weights");
    }
  }
}

void add_page_facts(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
                    const AttendSource& source, std::int64_t most_vectors) {
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
  const bool tokens = record.logits.defined() && record.logits.rank() == 3 && predicts_tokens(source);
  for (const auto& [kind, labels] : picture.tokens) {
    const auto positions = static_cast<std::int64_t>(labels.queries.size());
    const bool decodes =
        kind != "encoder" || dynamic_cast<const EncoderDecoderModel*>(&source.model) == nullptr;
    if (tokens && decodes && record.logits.size(1) == positions)
      picture.candidates[kind] = candidates_of(record.logits, source);
    if (kind == "encoder")
      picture.image = image_of(input.tensors, static_cast<std::int64_t>(labels.keys.size()));
  }
}

void add_ablations(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
                   const AttendSource& source) {
  if (!record.logits.defined())
    throw Error("attend: expected a model with logits for --ablate, got " + source.model.family() +
                " without a head");
  std::vector<LogitChoice> choices;
  const std::int64_t positions = record.logits.rank() == 3 ? record.logits.size(1) : 1;
  for (std::int64_t position = 0; position < positions; ++position) {
    const auto at = static_cast<std::size_t>(position);
    const bool follows = record.logits.rank() == 3 && at < input.following.size() && input.following[at] >= 0;
    choices.push_back({position, follows ? input.following[at] : best_token(record.logits, position)});
    picture.scored.push_back(name_of(choices.back().token, source));
  }
  Progress progress(source.globals.quiet);
  const auto ablations = ablate_heads(
      source.model, input.tensors, record, choices,
      [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "heads removed"); });
  progress.finish();
  for (const HeadAblation& ablation : ablations) {
    const auto found = std::find_if(picture.facts.begin(), picture.facts.end(), [&](const HeadFacts& facts) {
      return facts.kind == ablation.kind && facts.layer == ablation.layer && facts.head == ablation.head;
    });
    HeadFacts& facts =
        found != picture.facts.end()
            ? *found
            : picture.facts.emplace_back(HeadFacts{ablation.kind, ablation.layer, ablation.head, {}, {}});
    facts.ablation = ablation.change;
  }
}

}  // namespace heed::cli
