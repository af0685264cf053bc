// Maps of each measure, and what the page shows beside them.
#include "cli/attend/attend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/cli.h"
#include "cli/options/option_values.h"
#include "cli/terminal/terminal.h"
#include "heed/inspect/measures.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/tasks/classify.h"
#include "inspect/attention_heads.h"
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

// The labels of the whole text with their probabilities; none of a regression.
std::vector<Candidate> label_candidates(const EncoderModel& model, const Tensor& logits,
                                        const AttendSource& source) {
  const LabelFunction function = label_function(model);
  std::vector<Candidate> labels;
  if (function == LabelFunction::none) return labels;
  const auto ranked = inspect::ranked_tokens(logits, kCandidates);
  for (const inspect::RankedToken& one : ranked.front())
    labels.push_back({name_of(one.id, source),
                      function == LabelFunction::softmax ? one.probability : 1 / (1 + std::exp(-one.logit))});
  return labels;
}

// The most probable answer in a text: of the best beginning the best end from there on.
void add_span(PictureModel& answer, const AttentionRecord& record, const std::vector<std::string>& tokens) {
  const auto scores = [&](const char* name) {
    return reshape(record.outputs.at(name).to(DType::f32).contiguous(), {1, std::ssize(tokens)});
  };
  const auto starts = inspect::ranked_tokens(scores("start_logits"), 1).front();
  const auto ends = inspect::ranked_tokens(scores("end_logits"), std::ssize(tokens)).front();
  const auto end =
      std::find_if(ends.begin(), ends.end(), [&](const auto& one) { return one.id >= starts[0].id; });
  std::string text;
  for (std::int64_t i = starts[0].id; i <= end->id; ++i)
    text += (text.empty() ? "" : " ") + tokens[static_cast<std::size_t>(i)];
  answer.answer = {{text, starts[0].probability * end->probability}};
  answer.answer_position = starts[0].id;
}

// What the model is for and, of an encoder, what it answers.
void add_model(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
               const AttendSource& source) {
  picture.model.task = inspect::task_of(source.model);
  if (dynamic_cast<const DualEncoderModel*>(&source.model) == nullptr)
    picture.model.sizes = inspect::attention_sizes(source.model, attention_kinds(source.model));
  const auto* encoder = dynamic_cast<const EncoderModel*>(&source.model);
  const auto tokens = picture.tokens.find("encoder");
  if (encoder == nullptr || tokens == picture.tokens.end()) return;
  const auto candidates = picture.candidates.find("encoder");
  if (encoder->head() == EncoderHead::sequence && record.logits.defined())
    picture.model.answer = label_candidates(*encoder, record.logits, source);
  if (encoder->head() == EncoderHead::span && record.outputs.contains("start_logits") &&
      record.outputs.at("start_logits").numel() == std::ssize(tokens->second.queries))
    add_span(picture.model, record, tokens->second.queries);
  if (input.mask_position && candidates != picture.candidates.end())
    picture.model.answer = {candidates->second[static_cast<std::size_t>(*input.mask_position)].front()};
}

// The image or spectrogram whose parts are `keys`.
InputImage image_of(const AttendInput& input, const AttendSource& source, std::int64_t keys) {
  const InputSpec spec = source.model.input();
  const auto grid = grid_of_keys(spec, input.tensors, keys);
  if (!grid) return {};
  return inspect::picture_of_parts(spec, input.tensors, *grid, input.image);
}

// Of a recording, the image is cut to what holds sound.
void add_image(AttentionPicture& picture, const AttendInput& input, const AttendSource& source,
               std::int64_t keys) {
  InputImage& image = picture.image = image_of(input, source, keys);
  picture.sound = input.sound;
  if (image.width == 0 || image.rows > 1 || input.window <= 0) return;
  const auto shown = [&](std::int64_t count) {
    const double share = std::min(1.0, input.sound.seconds / input.window);
    return std::clamp<std::int64_t>(std::lround(share * static_cast<double>(count)), 1, count);
  };
  image.columns = shown(keys);
  picture.sound.seconds = input.window * static_cast<double>(image.columns) / static_cast<double>(keys);
  const std::int64_t width = shown(image.width);
  std::vector<std::uint8_t> rgb;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const auto row = image.rgb.begin() + 3 * y * image.width;
    rgb.insert(rgb.end(), row, row + 3 * width);
  }
  image.width = width;
  image.rgb = std::move(rgb);
}

// Of all heads of a layer; their mean and maximum are of the weights.
Tensor values_of(const RecordedLayer& layer, const std::string& measure) {
  if (measure == "norms") return value_weighted_norms(layer);
  return measure == "gradient" ? gradient_times_attention(layer) : layer.weights;
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

LogitChoice chosen_logit(std::optional<std::int64_t> position, const TokenChoice& chosen,
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
  const bool token = chosen.token && !chosen.id && predicts_tokens(source);
  choice.token = token            ? token_id(*chosen.token, source.tokenizer)
                 : chosen.given() ? chosen_id(chosen, source.model, source.tokenizer)
                 : follows        ? input.following[at]
                                  : best_token(logits, choice.position);
  if (choice.token >= logits.size(logits.rank() - 1))
    throw UsageError(fmt::format("--token: expected an id below {}, got {}", logits.size(logits.rank() - 1),
                                 choice.token));
  return choice;
}

void add_measure(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& choice,
                 const std::string& measure) {
  if (measure == "rollout") {
    inspect::add_rollout(picture, record, choice.layers);
    return;
  }
  for (const RecordedLayer& layer : record.layers) {
    if (!choice.layers.empty() &&
        std::find(choice.layers.begin(), choice.layers.end(), layer.layer) == choice.layers.end())
      continue;
    add_maps(picture, layer.name, layer.kind, layer.layer, values_of(layer, measure), choice, measure);
  }
}

void add_page_facts(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
                    const AttendSource& source, std::int64_t most_vectors) {
  inspect::add_facts(picture, record, most_vectors);
  picture.mask_position = input.mask_position;
  const auto* encoder = dynamic_cast<const EncoderModel*>(&source.model);
  const bool labels = encoder != nullptr && encoder->head() == EncoderHead::token;
  const bool tokens =
      record.logits.defined() && record.logits.rank() == 3 && (predicts_tokens(source) || labels);
  for (const auto& [kind, shown] : picture.tokens) {
    const auto positions = static_cast<std::int64_t>(shown.queries.size());
    const bool decodes =
        kind != "encoder" || dynamic_cast<const EncoderDecoderModel*>(&source.model) == nullptr;
    if (tokens && decodes && record.logits.size(1) == positions)
      picture.candidates[kind] = candidates_of(record.logits, source);
    if (kind == "encoder" || kind.starts_with("image") || kind.starts_with("pooling") ||
        (kind == "cross" && (input.sound.seconds > 0 || !input.words.empty())))
      add_image(picture, input, source, static_cast<std::int64_t>(shown.keys.size()));
  }
  add_model(picture, record, input, source);
}

AttentionPicture picture_over_image(AttentionPicture picture, const AttendInput& input,
                                    const AttendSource& source, const ChosenPatch& patch) {
  const auto lies_over_image = [](const auto& entry) {
    return entry.first != "decoder" && !is_text_kind(entry.first);
  };
  const auto kind = std::find_if(picture.tokens.begin(), picture.tokens.end(), lies_over_image);
  if (kind == picture.tokens.end()) return picture;  // texts alone
  add_image(picture, input, source, std::ssize(kind->second.keys));
  const InputImage& image = picture.image;
  const RecordedSound& sound = picture.sound;
  const bool frames = sound.seconds > 0 && image.rows == 1;
  std::optional<std::int64_t> query;
  if (patch.time) {
    if (!frames) throw UsageError("--time: expected a model of frames of sound (--patch chooses a patch)");
    const double share = (*patch.time - sound.start) / sound.seconds;
    if (share < 0 || share >= 1) {
      throw UsageError(fmt::format("--time: expected seconds from {:g} to below {:.2f}, got {:g}",
                                   sound.start, sound.start + sound.seconds, *patch.time));
    }
    query = image.first + static_cast<std::int64_t>(share * static_cast<double>(image.columns));
  } else if (!patch.place.empty()) {
    if (frames) throw UsageError("--patch: expected a model of patches (--time SECONDS chooses a frame)");
    const std::vector<std::int64_t> place = parse_ids(patch.place, "--patch");
    if (place.size() != 2 || place[0] >= image.rows || place[1] >= image.columns) {
      throw UsageError(
          fmt::format("--patch: expected a row below {} and a column below {}, such as {},{}, got {}",
                      image.rows, image.columns, image.rows / 2, image.columns / 2, patch.place));
    }
    query = image.first + place[0] * image.columns + place[1];
  } else if (image.first > 0) {
    query = 0;
  }
  picture.title += patch.time             ? fmt::format(": what the frame at {:g} s attends to", *patch.time)
                   : !patch.place.empty() ? ": what patch " + patch.place + " attends to"
                   : picture.tokens.begin()->first.starts_with("pooling")
                       ? ": what the query of the pooling attends to"
                   : query  ? ": what the class token attends to"
                   : frames ? ": what all frames attend to, on average"
                            : ": what all patches attend to, on average";
  return over_image(picture, query);
}

AttentionPicture picture_of_words(AttentionPicture picture, const AttendInput& input,
                                  const AttendSource& source, const ChosenPatch& patch) {
  if (patch.any())
    throw UsageError("--patch: expected attention of the encoder (--kind encoder), got that of the caption");
  const AttentionTokens& tokens = picture.tokens.find("cross")->second;
  std::vector<QueryGroup> words = input.words;
  for (std::int64_t i = 0; input.words.empty() && i < std::ssize(tokens.queries); ++i)
    words.push_back({tokens.queries[static_cast<std::size_t>(i)], i, i + 1});
  add_image(picture, input, source, std::ssize(tokens.keys));
  return words_over_image(picture, words);
}

AttentionPicture picture_along_time(AttentionPicture picture, const AttendInput& input,
                                    const AttendSource& source) {
  add_image(picture, input, source, std::ssize(picture.tokens.find("cross")->second.keys));
  return along_time(picture);
}

void add_alignment(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
                   const std::string& measure) {
  AttentionMap map;
  std::vector<double> sums;
  std::int64_t heads = 0;
  for (const RecordedLayer& layer : record.layers) {
    if (layer.kind != "cross") continue;
    const Tensor values = values_of(layer, measure).contiguous();
    for (const auto& [at, head] : input.alignment_heads) {
      if (at != layer.layer) continue;
      const std::vector<float> weights = slice(values, 0, head, head + 1).to_vector<float>();
      if (sums.empty()) map = inspect::empty_map(layer, measure), sums.resize(weights.size());
      map.name = layer.name;
      map.layer = layer.layer;
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(weights[i]);
      ++heads;
    }
  }
  if (heads == 0)
    throw UsageError("--heads: expected alignment only for a Whisper, and a layer that has such heads");
  map.head = AttentionMap::kAlignmentHeads;
  for (const double sum : sums) map.weights.push_back(static_cast<float>(sum / static_cast<double>(heads)));
  picture.maps.push_back(std::move(map));
}

void add_ablations(AttentionPicture& picture, const AttentionRecord& record, HeadAblationOptions options,
                   const AttendInput& input, const AttendSource& source, bool shows_progress) {
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
  options.ablation.progress = [&](std::int64_t done, std::int64_t total) {
    progress.show(done, total, "heads removed");
  };
  const auto ablations = ablate_heads(source.model, input.tensors, record, choices, options);
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
