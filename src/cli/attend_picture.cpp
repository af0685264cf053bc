// Maps of each measure, and what the page shows beside them.
#include "cli/attend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/cli.h"
#include "cli/terminal.h"
#include "heed/inspect/measures.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "inspect/recorded_picture.h"
#include "inspect/token_input.h"

namespace heed::cli {
namespace {

constexpr std::int64_t kCandidates = 6;

// The most probable tokens at each position of logits [1, T, V].
std::vector<std::vector<Candidate>> candidates_of(const Tensor& logits, const AttendSource& source) {
  std::vector<std::vector<Candidate>> steps;
  for (const auto& row :
       inspect::ranked_tokens(reshape(logits.contiguous(), {logits.size(1), logits.size(2)}), kCandidates)) {
    std::vector<Candidate>& step = steps.emplace_back();
    for (const inspect::RankedToken& one : row) step.push_back({name_of(one.id, source), one.probability});
  }
  return steps;
}

// Pixels from numbers, scaled from the smallest to the largest; `channel(c, y, x)` gives them.
template <class Channel>
InputImage image_from(std::int64_t height, std::int64_t width, const std::vector<float>& numbers,
                      Channel channel) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const float range = *high > *low ? *high - *low : 1;
  InputImage image{width, height, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t c = 0; c < 3; ++c)
        image.rgb.push_back(static_cast<std::uint8_t>(std::lround(255 * (channel(c, y, x) - *low) / range)));
    }
  }
  return image;
}

// The image or spectrogram whose parts are `keys`.
InputImage image_of(const AttendInput& input, const AttendSource& source, std::int64_t keys) {
  const TensorMap& tensors = input.tensors;
  const auto grid = patch_grid(source.model.input(), tensors, keys);
  if (!grid) return {};
  InputImage image = input.image;
  if (const auto found = tensors.find("pixel_values"); image.width == 0 && found != tensors.end()) {
    const Tensor& pixels = found->second;  // [1, C, H, W]
    const std::vector<float> numbers = pixels.to(DType::f32).to_vector<float>();
    const std::int64_t channels = pixels.size(1), height = pixels.size(2), width = pixels.size(3);
    image = image_from(height, width, numbers, [&](std::int64_t c, std::int64_t y, std::int64_t x) {
      return numbers[static_cast<std::size_t>((std::min(c, channels - 1) * height + y) * width + x)];
    });
  } else if (const auto sound = tensors.find("input_features"); sound != tensors.end()) {
    const std::vector<float> numbers = sound->second.to(DType::f32).to_vector<float>();
    const std::int64_t bins = sound->second.size(1), frames = sound->second.size(2);
    image = image_from(bins, frames, numbers, [&](std::int64_t, std::int64_t y, std::int64_t x) {
      return numbers[static_cast<std::size_t>((bins - 1 - y) * frames + x)];
    });
  }
  image.rows = grid->rows, image.columns = grid->columns, image.first = grid->first;
  return image;
}

bool predicts_tokens(const AttendSource& source) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&source.model);
  return encoder == nullptr || encoder->head() == EncoderHead::masked_lm;
}

// Returns the id of --token: a token of the vocabulary, or a number.
std::int64_t token_id(const std::string& token, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) {
    for (const char* begin : {"", "▁", "Ġ"}) {
      if (const auto id = tokenizer->token_to_id(begin + token)) return *id;
    }
  }
  if (!token.empty() && token.find_first_not_of("0123456789") == std::string::npos && token.size() < 10)
    return std::stoll(token);
  throw UsageError("--token: expected one token of the vocabulary or its id, got \"" + token + "\"");
}

// The most probable token or label of a row of logits.
std::int64_t best_token(const Tensor& logits, std::int64_t position) {
  const Tensor row = logits.rank() == 3 ? slice(logits, 1, position, position + 1) : logits;
  return argmax(reshape(row.contiguous(), {row.numel()}), 0).to_vector<std::int64_t>().front();
}

// Over the image, what each word of its caption attends to; without words, each token.
AttentionPicture picture_of_words(AttentionPicture picture, const AttendInput& input,
                                  const std::string& patch) {
  if (!patch.empty())
    throw UsageError("--patch: expected attention of the encoder (--kind encoder), got that of the caption");
  std::vector<QueryGroup> words = input.words;
  const std::vector<std::string>& tokens = picture.tokens.find("cross")->second.queries;
  for (std::int64_t i = 0; input.words.empty() && i < std::ssize(tokens); ++i)
    words.push_back({tokens[static_cast<std::size_t>(i)], i, i + 1});
  return words_over_image(picture, words);
}

}  // namespace

std::string name_of(std::int64_t token, const AttendSource& source) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&source.model);
  if (encoder != nullptr && static_cast<std::size_t>(token) < encoder->labels().size() &&
      !predicts_tokens(source))
    return encoder->labels()[static_cast<std::size_t>(token)];
  if (source.tokenizer != nullptr && token < source.tokenizer->vocab_size() && predicts_tokens(source))
    return inspect::shown_tokens({source.tokenizer->token(token)}, source.tokenizer).front();
  return std::to_string(token);
}

LogitChoice chosen_logit(std::optional<std::int64_t> position, const std::string& token,
                         const AttendInput& input, const AttendSource& source) {
  const Tensor logits = record_attention(source.model, input.tensors, {attention_kinds(source.model)}).logits;
  if (!logits.defined())
    throw Error("attend: expected a model with logits for --show gradient, got " + source.model.family() +
                " without a head");
  const std::int64_t positions = logits.rank() == 3 ? logits.size(1) : 1;
  LogitChoice choice;
  choice.position = position.value_or(logits.rank() == 3 ? input.mask_position.value_or(positions - 1) : 0);
  if (choice.position >= positions)
    throw UsageError(
        fmt::format("--position: expected a position below {}, got {}", positions, choice.position));
  const auto at = static_cast<std::size_t>(choice.position);
  const bool follows = at < input.following.size() && input.following[at] >= 0 && logits.rank() == 3;
  choice.token = !token.empty() ? token_id(token, source.tokenizer)
                 : follows      ? input.following[at]
                                : best_token(logits, choice.position);
  if (choice.token >= logits.size(logits.rank() - 1))
    throw UsageError(fmt::format("--token: expected an id below {}, got {}", logits.size(logits.rank() - 1),
                                 choice.token));
  return choice;
}

void add_measure(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& chosen,
                 const std::string& measure) {
  MapChoice choice = chosen;
  if (measure == "rollout") {
    inspect::add_rollout(picture, record, choice.layers);
    return;
  }
  if (measure == "mean" || measure == "max") {
    choice.mean_of_heads = measure == "mean";
    choice.max_of_heads = measure == "max";
  }
  for (const RecordedLayer& layer : record.layers) {
    if (!choice.layers.empty() &&
        std::find(choice.layers.begin(), choice.layers.end(), layer.layer) == choice.layers.end())
      continue;
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
  inspect::add_facts(picture, record, most_vectors);
  picture.mask_position = input.mask_position;
  const bool tokens = record.logits.defined() && record.logits.rank() == 3 && predicts_tokens(source);
  for (const auto& [kind, labels] : picture.tokens) {
    const auto positions = static_cast<std::int64_t>(labels.queries.size());
    const bool decodes =
        kind != "encoder" || dynamic_cast<const EncoderDecoderModel*>(&source.model) == nullptr;
    if (tokens && decodes && record.logits.size(1) == positions)
      picture.candidates[kind] = candidates_of(record.logits, source);
    if (kind == "encoder" || (kind == "cross" && !input.words.empty()))
      picture.image = image_of(input, source, static_cast<std::int64_t>(labels.keys.size()));
  }
}

AttentionPicture picture_over_image(AttentionPicture picture, const AttendInput& input,
                                    const AttendSource& source, const std::string& patch) {
  const auto encoder = picture.tokens.find("encoder");
  const auto& [kind, tokens] = encoder != picture.tokens.end() ? *encoder : *picture.tokens.begin();
  picture.image = image_of(input, source, std::ssize(tokens.keys));
  if (kind == "cross") return picture_of_words(std::move(picture), input, patch);
  const InputImage& image = picture.image;
  std::optional<std::int64_t> query;
  if (!patch.empty()) {
    const std::vector<std::int64_t> place = parse_ids(patch, "--patch");
    if (place.size() != 2 || place[0] >= image.rows || place[1] >= image.columns) {
      throw UsageError(
          fmt::format("--patch: expected a row below {} and a column below {}, such as {},{}, got {}",
                      image.rows, image.columns, image.rows / 2, image.columns / 2, patch));
    }
    query = image.first + place[0] * image.columns + place[1];
  } else if (image.first > 0) {
    query = 0;
  }
  picture.title += !patch.empty() ? ": what patch " + patch + " attends to"
                   : query        ? ": what the class token attends to"
                                  : ": what all patches attend to, on average";
  return over_image(picture, query);
}

void add_ablations(AttentionPicture& picture, const AttentionRecord& record,
                   const std::vector<std::int64_t>& heads, const AttendInput& input,
                   const AttendSource& source, bool shows_progress) {
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
  Progress progress(source.globals.quiet || !shows_progress);
  const auto ablations = ablate_heads(
      source.model, input.tensors, record, choices, heads,
      [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "heads removed"); });
  progress.show(std::ssize(ablations), std::ssize(ablations), "heads removed");
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
