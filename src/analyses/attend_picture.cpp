#include "analyses/attend_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "heed/inspect/record.h"
#include "heed/models/kind.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/tasks/classify.h"
#include "inspect/patch_grid.h"
#include "inspect/recorded_picture.h"
#include "inspect/token_input.h"

namespace heed::analyses {
namespace {

constexpr std::int64_t kCandidates = 6;

// The most probable tokens at each position of logits [1, T, V].
std::vector<std::vector<Candidate>> candidates_of(const Tensor& logits, const ModelParts& model) {
  std::vector<std::vector<Candidate>> steps;
  for (const auto& row :
       inspect::ranked_tokens(reshape(logits.contiguous(), {logits.size(1), logits.size(2)}), kCandidates)) {
    std::vector<Candidate>& step = steps.emplace_back();
    for (const inspect::RankedToken& one : row) step.push_back({name_of(one.id, model), one.probability});
  }
  return steps;
}

// The labels of the whole text with their probabilities; none of a regression.
std::vector<Candidate> label_candidates(const EncoderModel& encoder, const Tensor& logits,
                                        const ModelParts& model) {
  const LabelFunction function = label_function(encoder);
  std::vector<Candidate> labels;
  if (function == LabelFunction::none) return labels;
  const auto ranked = inspect::ranked_tokens(logits, kCandidates);
  for (const inspect::RankedToken& one : ranked.front())
    labels.push_back({name_of(one.id, model),
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
void add_model(AttentionPicture& picture, const AttentionRecord& record, const Subject& subject,
               const ModelParts& model) {
  picture.model.task = inspect::task_of(model.model);
  if (as<DualEncoderModel>(model.model) == nullptr)
    picture.model.sizes = inspect::attention_sizes(model.model, attention_kinds(model.model));
  const auto* encoder = as<EncoderModel>(model.model);
  const auto tokens = picture.tokens.find("encoder");
  if (encoder == nullptr || tokens == picture.tokens.end()) return;
  const auto candidates = picture.candidates.find("encoder");
  if (encoder->head() == EncoderHead::sequence && record.logits.defined())
    picture.model.answer = label_candidates(*encoder, record.logits, model);
  if (encoder->head() == EncoderHead::span && record.outputs.contains("start_logits") &&
      record.outputs.at("start_logits").numel() == std::ssize(tokens->second.queries))
    add_span(picture.model, record, tokens->second.queries);
  if (subject.mask_position && candidates != picture.candidates.end())
    picture.model.answer = {candidates->second[static_cast<std::size_t>(*subject.mask_position)].front()};
}

// The patches that `keys` positions of an image or a spectrogram are, or the frames of a sound.
std::optional<inspect::PatchGrid> grid_of_keys(const InputSpec& spec, const TensorMap& tensors,
                                               std::int64_t keys) {
  const auto grid = inspect::patch_grid(spec, tensors);
  if (grid && grid->positions() == keys) return grid;
  if (grid || !spec.is_sound() || spec.patch.rank() > 0 || !tensors.contains(spec.name)) return std::nullopt;
  return inspect::PatchGrid{1, keys, 0};
}

// Of all heads of a layer; their mean and maximum are of the weights.
Tensor values_of(const RecordedLayer& layer, const std::string& measure) {
  if (measure == "norms") return value_weighted_norms(layer);
  return measure == "gradient" ? gradient_times_attention(layer) : layer.weights;
}

// What the chosen patch or frame attends to: without one, the class token or, of a model without it, the mean
// over all.
AttentionPicture over_parts(AttentionPicture picture, const Subject& subject, const Model& model,
                            const AttendOptions& options) {
  const auto lies_over_image = [](const auto& entry) {
    return entry.first != "decoder" && !is_text_kind(entry.first);
  };
  const auto kind = std::find_if(picture.tokens.begin(), picture.tokens.end(), lies_over_image);
  if (kind == picture.tokens.end()) return picture;  // texts alone
  add_image(picture, subject, model, std::ssize(kind->second.keys));
  const InputImage& image = picture.image;
  const RecordedSound& sound = picture.sound;
  const bool frames = sound.seconds > 0 && image.rows == 1;
  const std::string place =
      joined(options.patch, ",", [](std::int64_t number) { return std::to_string(number); });
  std::optional<std::int64_t> query;
  if (options.time) {
    if (!frames) throw OptionError("time", "expected a model of frames of sound (--patch chooses a patch)");
    const double share = (*options.time - sound.start) / sound.seconds;
    if (share < 0 || share >= 1)
      throw OptionError("time", fmt::format("expected seconds from {:g} to below {:.2f}, got {:g}",
                                            sound.start, sound.start + sound.seconds, *options.time));
    query = image.first + static_cast<std::int64_t>(share * static_cast<double>(image.columns));
  } else if (!place.empty()) {
    if (frames) throw OptionError("patch", "expected a model of patches (--time SECONDS chooses a frame)");
    if (options.patch.size() != 2 || options.patch[0] >= image.rows || options.patch[1] >= image.columns)
      throw OptionError("patch",
                        fmt::format("expected a row below {} and a column below {}, such as {},{}, got {}",
                                    image.rows, image.columns, image.rows / 2, image.columns / 2, place));
    query = image.first + options.patch[0] * image.columns + options.patch[1];
  } else if (image.first > 0) {
    query = 0;
  }
  picture.title += options.time     ? fmt::format(": what the frame at {:g} s attends to", *options.time)
                   : !place.empty() ? ": what patch " + place + " attends to"
                   : picture.tokens.begin()->first.starts_with("pooling")
                       ? ": what the query of the pooling attends to"
                   : query  ? ": what the class token attends to"
                   : frames ? ": what all frames attend to, on average"
                            : ": what all patches attend to, on average";
  return over_image(picture, query);
}

// What each word of a caption attends to; without words, each token.
AttentionPicture over_words(AttentionPicture picture, const Subject& subject, const Model& model,
                            const AttendOptions& options) {
  if (!options.patch.empty() || options.time)
    throw OptionError("patch", "expected attention of the encoder (--kind encoder), got that of the caption");
  const AttentionTokens& tokens = picture.tokens.find("cross")->second;
  std::vector<QueryGroup> words = subject.words;
  for (std::int64_t i = 0; subject.words.empty() && i < std::ssize(tokens.queries); ++i)
    words.push_back({tokens.queries[static_cast<std::size_t>(i)], i, i + 1});
  add_image(picture, subject, model, std::ssize(tokens.keys));
  return words_over_image(picture, words);
}

// Cuts the maps of texts to their last query, whose vector stands for the text, for beside the image.
void keep_last_queries(AttentionPicture& picture) {
  for (AttentionMap& map : picture.maps) {
    if (!is_text_kind(map.kind)) continue;
    map.weights.erase(map.weights.begin(), map.weights.end() - map.keys);
    map.queries = 1;
    if (map.measure != "rollout") map.measure += " in texts";  // a scale of their own
  }
  for (auto& [kind, tokens] : picture.tokens) {
    if (!is_text_kind(kind)) continue;
    tokens.queries = {tokens.queries.back()};
    picture.beside.push_back(kind);
  }
}

}  // namespace

std::vector<std::string> key_labels(std::int64_t keys, const Subject& subject, const InputSpec& spec) {
  const auto grid = grid_of_keys(spec, subject.inputs, keys);
  if (grid && (grid->rows > 1 || spec.is_image()))
    return inspect::part_labels(spec, subject.inputs, *grid, subject.sound.start);
  // Without a time of its own, a frame is one of an encoder of speech, which halves those of 10 ms.
  const double step = subject.window > 0 ? subject.window / static_cast<double>(keys) : 0.02;
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < keys; ++i)
    labels.push_back(grid ? fmt::format("{:.2f} s", subject.sound.start + step * static_cast<double>(i))
                          : std::to_string(i));
  return labels;
}

void add_image(AttentionPicture& picture, const Subject& subject, const Model& model, std::int64_t keys) {
  const InputSpec spec = model.input();
  const auto grid = grid_of_keys(spec, subject.inputs, keys);
  InputImage& image = picture.image = !grid ? InputImage()
                                      : subject.image.rows > 0
                                          ? subject.image
                                          : inspect::picture_of_parts(spec, subject.inputs, *grid);
  picture.sound = subject.sound;
  if (image.width == 0 || image.rows > 1 || subject.window <= 0) return;
  const auto shown = [&](std::int64_t count) {
    const double share = std::min(1.0, subject.sound.seconds / subject.window);
    return std::clamp<std::int64_t>(std::lround(share * static_cast<double>(count)), 1, count);
  };
  image.columns = shown(keys);
  picture.sound.seconds = subject.window * static_cast<double>(image.columns) / static_cast<double>(keys);
  const std::int64_t width = shown(image.width);
  std::vector<std::uint8_t> rgb;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const auto row = image.rgb.begin() + 3 * y * image.width;
    rgb.insert(rgb.end(), row, row + 3 * width);
  }
  image.width = width;
  image.rgb = std::move(rgb);
}

bool is_text_kind(const std::string& kind) { return kind.starts_with("text"); }

bool MapChoice::has_layer(std::int64_t layer) const {
  return layers.empty() || std::find(layers.begin(), layers.end(), layer) != layers.end();
}

std::vector<std::int64_t> heads_of(const MapChoice& choice, std::int64_t count) {
  std::vector<std::int64_t> heads = choice.heads;
  for (std::int64_t h = 0; choice.heads.empty() && h < count; ++h) heads.push_back(h);
  for (const std::int64_t head : heads) {
    if (head < 0 || head >= count)
      throw OptionError("heads", fmt::format("expected heads below {}, got {}", count, head));
  }
  return heads;
}

void add_missing_tokens(Subject& subject, const AttentionRecord& record, const InputSpec& spec) {
  for (const RecordedLayer& layer : record.layers) {
    AttentionTokens& tokens = subject.tokens[layer.kind];
    if (!tokens.keys.empty()) continue;
    tokens.keys = key_labels(layer.all_keys, subject, spec);
    if (!tokens.queries.empty()) continue;
    const auto read = subject.tokens.find("decoder");
    const bool cross = layer.kind == "cross" && read != subject.tokens.end();
    tokens.queries = cross ? read->second.queries : tokens.keys;
  }
}

void add_measure(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& choice,
                 const std::string& measure) {
  if (measure == "rollout") return inspect::add_rollout(picture, record, choice.layers);
  for (const RecordedLayer& layer : record.layers) {
    if (!choice.has_layer(layer.layer)) continue;
    const Tensor values = values_of(layer, measure);
    AttentionMap map = inspect::empty_map(layer, measure);
    if (choice.mean_of_heads || choice.max_of_heads) {
      map.head = choice.mean_of_heads ? AttentionMap::kMeanOfHeads : AttentionMap::kMaxOfHeads;
      map.weights = (choice.mean_of_heads ? mean(values, 0) : max(values, 0)).to_vector<float>();
      picture.maps.push_back(std::move(map));
      continue;
    }
    for (const std::int64_t head : heads_of(choice, values.size(0))) {
      map.head = head;
      map.weights = slice(values, 0, head, head + 1).to_vector<float>();
      picture.maps.push_back(map);
    }
  }
}

void add_alignment(AttentionPicture& picture, const AttentionRecord& record, const Subject& subject,
                   const std::string& measure) {
  AttentionMap map;
  std::vector<double> sums;
  std::int64_t heads = 0;
  for (const RecordedLayer& layer : record.layers) {
    if (layer.kind != "cross") continue;
    const Tensor values = values_of(layer, measure).contiguous();
    for (const auto& [at, head] : subject.alignment_heads) {
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
    throw OptionError("heads", "expected alignment only for a Whisper, and a layer that has such heads");
  map.head = AttentionMap::kAlignmentHeads;
  for (const double sum : sums) map.weights.push_back(static_cast<float>(sum / static_cast<double>(heads)));
  picture.maps.push_back(std::move(map));
}

bool predicts_tokens(const Model& model) {
  const ModelTraits traits = traits_of(model);
  return !traits.is(ModelKind::encoder) || traits.head == EncoderHead::masked_lm;
}

std::string name_of(std::int64_t token, const ModelParts& model) {
  const auto* encoder = as<EncoderModel>(model.model);
  const bool tokens = predicts_tokens(model.model);
  if (encoder != nullptr && !tokens && static_cast<std::size_t>(token) < encoder->labels().size())
    return encoder->labels()[static_cast<std::size_t>(token)];
  if (model.tokenizer != nullptr && tokens && token < model.tokenizer->vocab_size())
    return inspect::shown_tokens({model.tokenizer->token(token)}, model.tokenizer).front();
  return std::to_string(token);
}

void add_page_facts(AttentionPicture& picture, const AttentionRecord& record, const Subject& subject,
                    const ModelParts& model, std::int64_t most_vectors) {
  inspect::add_facts(picture, record, most_vectors);
  picture.mask_position = subject.mask_position;
  const ModelTraits traits = traits_of(model.model);
  const bool tokens = record.logits.defined() && record.logits.rank() == 3 &&
                      (predicts_tokens(model.model) || traits.is_encoder(EncoderHead::token));
  for (const auto& [kind, shown] : picture.tokens) {
    const bool decodes = kind != "encoder" || !traits.is(ModelKind::encoder_decoder);
    if (tokens && decodes && record.logits.size(1) == std::ssize(shown.queries))
      picture.candidates[kind] = candidates_of(record.logits, model);
    if (kind == "encoder" || kind.starts_with("image") || kind.starts_with("pooling") ||
        (kind == "cross" && (subject.sound.seconds > 0 || !subject.words.empty())))
      add_image(picture, subject, model.model, std::ssize(shown.keys));
  }
  add_model(picture, record, subject, model);
}

AttentionPicture laid_out(AttentionPicture picture, const Subject& subject, const Model& model,
                          const AttendOptions& options) {
  const bool chosen = !options.patch.empty() || options.time;
  if (is_figure(options) && options.all_positions()) {
    const auto cross = picture.tokens.find("cross");
    const bool crosses = cross != picture.tokens.end(), image = subject.inputs.contains("pixel_values");
    if (!subject.sound.words.empty() && crosses && !chosen) {
      add_image(picture, subject, model, std::ssize(cross->second.keys));
      return along_time(picture);
    }
    if (!subject.texts.empty()) keep_last_queries(picture);
    if (image && crosses) return over_words(std::move(picture), subject, model, options);
    if (image || (subject.sound.seconds > 0 && picture.tokens.contains("encoder")))
      return over_parts(std::move(picture), subject, model, options);
  }
  if (chosen)
    throw OptionError(
        options.time ? "time" : "patch",
        std::string(options.time ? "expected a recording (and --kind encoder of a model of speech)"
                                 : "expected an image") +
            ", in the terminal or in .svg, .pdf or .png without --queries and --keys");
  return picture;
}

}  // namespace heed::analyses
