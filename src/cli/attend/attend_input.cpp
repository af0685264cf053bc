// Encodes texts, pairs and targets, labels the positions of images and sounds, and cuts what is recorded and
// shown to ranges of queries and keys.
#include "cli/attend/attend.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/tap_options.h"
#include "files/input_file.h"
#include "heed/generate/complete.h"
#include "heed/generate/translate.h"
#include "heed/image/processor.h"
#include "heed/io/safetensors.h"
#include "heed/models/kind.h"
#include "heed/ops/loss.h"
#include "heed/ops/shape.h"
#include "inspect/token_input.h"
#include "tasks/file_input.h"

namespace heed::cli {
namespace {

constexpr const char* kMissingText = "missing text (give one with at least one word)";

}  // namespace

GenerationOptions generation_of(const AttendText& text, const AttendSource& source) {
  GenerationOptions options = load_generation_options(source.directory);
  if (text.max_new_tokens) options.max_new_tokens = text.max_new_tokens;
  choose_seed(options, source.globals);
  return options;
}

AttendInput token_input(const std::vector<std::int64_t>& ids, const std::string& title,
                        const AttendSource& source) {
  std::vector<std::int64_t> following(ids.begin() + 1, ids.end());
  following.push_back(-1);
  const std::vector<std::string> tokens = inspect::token_names(source.tokenizer, ids);
  return {{{"input_ids", inspect::one_row(ids)}}, title, {{"decoder", {tokens, tokens}}}, following};
}

namespace {

// Returns the target's ids: those of --target, or of the model's own translation.
std::vector<std::int64_t> target_ids(const AttendText& text, const EncoderDecoderModel& model,
                                     const AttendSource& source) {
  if (text.target) return source.tokenizer->encode_target(*text.target).ids;
  TranslateOptions options;
  options.generation = generation_of(text, source);
  const std::vector<std::string> texts{text.text};
  return translate(model, *source.tokenizer, texts, options).front().candidates.front().hypothesis.ids;
}

AttendInput encoder_decoder_input(const AttendText& text, const EncoderDecoderModel& model,
                                  const AttendSource& source) {
  if (text.pair) throw UsageError("--pair: expected an encoder, got " + kind_of(model));
  if (model.input().kind != InputKind::tokens)
    throw UsageError("--input: missing (" + model.family() + " takes tensors of sound, not text)");
  const Encoding encoding = source.tokenizer->encode(text.text);
  const std::vector<std::int64_t> target = target_ids(text, model, source);
  if (target.empty()) throw Error(kMissingText);
  const auto fed = model.decoder_inputs(inspect::one_row(target), CrossEntropyOptions().ignore_index)
                       .to_vector<std::int64_t>();
  return {{{"input_ids", inspect::one_row(encoding.ids)}, {"decoder_input_ids", inspect::one_row(fed)}},
          text.text + " → " + source.tokenizer->decode(target),
          inspect::encoder_decoder_tokens(encoding.tokens, inspect::token_names(source.tokenizer, target),
                                          inspect::token_names(source.tokenizer, fed)),
          target};
}

AttendInput decoder_input(const AttendText& text, const DecoderModel& model, const AttendSource& source) {
  if (text.pair) throw UsageError("--pair: expected an encoder, got " + kind_of(model));
  std::vector<std::int64_t> ids;
  std::string title = text.text;
  if (source.chat != nullptr) {
    EncodedChat chat = source.chat->prompt(text.text);
    ids = std::move(chat.encoding.ids);
    title = std::move(chat.text);
  } else {
    ids = source.tokenizer->encode(text.text).ids;
  }
  if (ids.empty()) throw Error(kMissingText);
  if (text.max_new_tokens) {
    CompleteOptions options;
    options.generation = generation_of(text, source);
    const std::vector<std::vector<std::int64_t>> prompts{ids};
    const Completion completion = complete(model, *source.tokenizer, prompts, options).front().front();
    title += " → " + completion.text;
    ids.insert(ids.end(), completion.hypothesis.ids.begin(), completion.hypothesis.ids.end());
  }
  return token_input(ids, title, source);
}

AttendInput encoder_input(const AttendText& text, const AttendSource& source) {
  const Encoding encoding =
      text.pair ? source.tokenizer->encode_pair(text.text, *text.pair) : source.tokenizer->encode(text.text);
  if (encoding.ids.empty()) throw Error(kMissingText);
  inspect::TokenInput tokens = inspect::encoder_input(source.model, encoding);
  AttendInput input{std::move(tokens.tensors), text.pair ? text.text + " / " + *text.pair : text.text,
                    std::move(tokens.tokens), std::vector<std::int64_t>(encoding.ids.size(), -1)};
  const auto mask = source.tokenizer->mask_id();
  const auto found = mask ? std::find(encoding.ids.begin(), encoding.ids.end(), *mask) : encoding.ids.end();
  if (found != encoding.ids.end()) input.mask_position = found - encoding.ids.begin();
  return input;
}

std::vector<std::int64_t> ids_in(const TensorMap& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? std::vector<std::int64_t>()
                                : found->second.to(DType::i64).to_vector<std::int64_t>();
}

std::vector<std::string> numbered_positions(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(std::to_string(i));
  return labels;
}

// Of frames whose time is not the input's own: an encoder of speech halves the frames, which are 10 ms apart.
std::vector<std::string> frame_labels(std::int64_t count, const AttendInput& input) {
  const double step = input.window > 0 ? input.window / static_cast<double>(count) : 0.02;
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i)
    labels.push_back(fmt::format("{:.2f} s", input.sound.start + step * static_cast<double>(i)));
  return labels;
}

std::vector<std::string> key_labels(std::int64_t keys, const AttendInput& input, const InputSpec& spec) {
  const auto grid = grid_of_keys(spec, input.tensors, keys);
  if (!grid) return numbered_positions(keys);
  if (grid->rows == 1 && !spec.is_image()) return frame_labels(keys, input);
  return inspect::part_labels(spec, input.tensors, *grid, input.sound.start);
}

}  // namespace

AttendInput text_input(const AttendText& text, const AttendSource& source) {
  const Model& model = source.model;
  const bool encoder = dynamic_cast<const EncoderModel*>(&model) != nullptr;
  if (model.input().is_sound()) return sound_input(text, source);
  if (text.start)
    throw UsageError("--start: expected a model that hears, such as whisper, got " + model.family());
  const auto* towers = dynamic_cast<const DualEncoderModel*>(&model);
  if ((encoder || towers != nullptr) && model.input().is_image()) {
    if (text.pair || text.target || text.max_new_tokens)
      throw UsageError("--pair, --target, --max-new-tokens: expected none for an image, got one");
    return towers != nullptr ? towers_input(text.text, text.texts, *towers, source)
                             : image_input(text.text, source);
  }
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model);
  if (both != nullptr && model.input().kind == InputKind::pixels) return caption_input(text, *both, source);
  if (both != nullptr && source.chat == nullptr) return encoder_decoder_input(text, *both, source);
  if (text.target) throw UsageError("--target: expected an encoder-decoder, got " + kind_of(model));
  const auto* decoder = dynamic_cast<const DecoderModel*>(&model);
  if (decoder != nullptr) return decoder_input(text, *decoder, source);
  if (source.chat != nullptr) throw UsageError("--messages: expected a decoder, got " + kind_of(model));
  if (text.max_new_tokens)
    throw UsageError("--max-new-tokens: expected a model that generates, got " + kind_of(model));
  return encoder_input(text, source);
}

AttendInput image_input(const std::string& file, const AttendSource& source) {
  const ImageProcessor processor = load_image_processor(source.directory);
  const ModelInput image = tasks::image_input(file, processor, source.model.input());
  AttendInput input;
  input.tensors["pixel_values"] = image.values;
  if (image.grids.defined()) input.tensors["spatial_shapes"] = image.grids;
  input.title = std::filesystem::path(shown_name(file)).filename().string();
  const Tensor seen = processor.picture(image.values, image.grids);
  input.image = {seen.size(1), seen.size(0), seen.to_vector<std::uint8_t>()};
  return input;
}

AttendInput tensor_input(const std::filesystem::path& file, const AttendSource& source) {
  AttendInput input;
  input.title = file.filename().string();
  const SafetensorsFile tensors = SafetensorsFile::open(file);
  for (const TensorInfo& info : tensors.tensors()) {
    if (!info.shape.empty() && info.shape[0] != 1)
      throw Error(fmt::format("{}: expected one row in {}, got {}", file.string(), info.name, info.shape[0]));
    input.tensors[info.name] = tensors.get(info.name);
  }
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&source.model);
  const std::vector<std::int64_t> ids = ids_in(input.tensors, "input_ids");
  const std::vector<std::string> tokens = inspect::token_names(source.tokenizer, ids);
  if (both == nullptr) {
    if (ids.empty()) return input;
    const bool decodes = dynamic_cast<const DecoderModel*>(&source.model) != nullptr;
    input.tokens[decodes ? "decoder" : "encoder"] = {tokens, tokens};
    return input;
  }
  std::vector<std::int64_t> fed = ids_in(input.tensors, "decoder_input_ids"),
                            target = ids_in(input.tensors, "labels");
  if (fed.empty() && !target.empty())
    fed = both->decoder_inputs(inspect::one_row(target), CrossEntropyOptions().ignore_index)
              .to_vector<std::int64_t>();
  input.tensors["decoder_input_ids"] = inspect::one_row(fed);
  if (fed.empty())
    throw Error(file.string() + ": expected decoder_input_ids or labels for the decoder of " +
                source.model.family() + ", got neither (add one of them to the file)");
  input.tokens = inspect::encoder_decoder_tokens(
      tokens, inspect::token_names(source.tokenizer, target.empty() ? fed : target),
      inspect::token_names(source.tokenizer, fed));
  input.following = target;
  return input;
}

std::optional<inspect::PatchGrid> grid_of_keys(const InputSpec& input, const TensorMap& tensors,
                                               std::int64_t keys) {
  const auto grid = inspect::patch_grid(input, tensors);
  if (grid && grid->positions() == keys) return grid;
  if (grid || !input.is_sound() || input.patch.rank() > 0 || !tensors.contains(input.name))
    return std::nullopt;
  return inspect::PatchGrid{1, keys, 0};
}

void add_missing_tokens(AttendInput& input, const AttentionRecord& record, const InputSpec& spec) {
  for (const RecordedLayer& layer : record.layers) {
    AttentionTokens& tokens = input.tokens[layer.kind];
    if (!tokens.keys.empty()) continue;
    const std::int64_t keys = layer.all_keys;
    tokens.keys = key_labels(keys, input, spec);
    if (!tokens.queries.empty()) continue;
    const auto fed = input.tokens.find("decoder");
    const bool cross = layer.kind == "cross" && fed != input.tokens.end();
    tokens.queries = cross ? fed->second.queries : tokens.keys;
  }
}

namespace {

using Bounds = std::array<std::int64_t, 2>;

Bounds bounds_of(const TapRange& range, std::size_t size) {
  return {range.begin, range.end.value_or(static_cast<std::int64_t>(size))};
}

void check_range(const char* option, const std::string& given, const TapRange& range, const std::string& kind,
                 std::size_t size) {
  const auto [begin, end] = bounds_of(range, size);
  if (begin < end && end <= static_cast<std::int64_t>(size)) return;
  throw UsageError(fmt::format("{}: expected positions of the {} of {} attention, counted from 0, got {}",
                               option, size, kind, given));
}

template <class T>
void cut(std::vector<T>& values, const Bounds& bounds) {
  values = std::vector<T>(values.begin() + bounds[0], values.begin() + bounds[1]);
}

void cut_map(AttentionMap& map, const Bounds& queries, const Bounds& keys) {
  std::vector<float> weights;
  for (std::int64_t query = queries[0]; query < queries[1]; ++query) {
    const auto row = map.weights.begin() + query * map.keys;
    weights.insert(weights.end(), row + keys[0], row + keys[1]);
  }
  map.weights = std::move(weights);
  map.queries = queries[1] - queries[0];
  map.keys = keys[1] - keys[0];
}

}  // namespace

TapSelection AttendRanges::selection() const {
  TapSelection chosen;
  if (!queries.empty()) chosen.queries = parse_positions(queries, "--queries");
  if (!keys.empty()) chosen.keys = parse_positions(keys, "--keys");
  return chosen;
}

std::string AttendRanges::text() const {
  return (queries.empty() ? "" : "queries " + queries) + (queries.empty() || keys.empty() ? "" : ", ") +
         (keys.empty() ? "" : "keys " + keys);
}

void check_ranges(const AttendRanges& ranges, const AttendInput& input,
                  const std::vector<AttentionKind>& kinds) {
  const TapSelection chosen = ranges.selection();
  for (const AttentionKind& kind : kinds) {
    const auto tokens = input.tokens.find(kind.name);
    if (tokens == input.tokens.end()) continue;  // of images and sounds, the model knows
    check_range("--queries", ranges.queries, chosen.queries, kind.name, tokens->second.queries.size());
    if (tokens->second.keys.empty()) continue;
    check_range("--keys", ranges.keys, chosen.keys, kind.name, tokens->second.keys.size());
  }
}

AttentionRecord cut_record(const AttendRanges& ranges, const AttentionRecord& record) {
  const TapSelection chosen = ranges.selection();
  AttentionRecord result = record;
  for (RecordedLayer& layer : result.layers) {
    const auto cut_axis = [](Tensor& x, int axis, const TapRange& range, std::int64_t size) {
      if (!x.defined()) return;
      const auto [begin, end] = bounds_of(range, static_cast<std::size_t>(size));
      x = slice(x, axis, begin, end).contiguous();
    };
    for (Tensor* all : {&layer.weights, &layer.gradient, &layer.q})
      cut_axis(*all, 1, chosen.queries, layer.all_queries);
    for (Tensor* all : {&layer.weights, &layer.gradient}) cut_axis(*all, 2, chosen.keys, layer.all_keys);
    for (Tensor* all : {&layer.value_norms, &layer.k, &layer.v})
      cut_axis(*all, 1, chosen.keys, layer.all_keys);
  }
  return result;
}

void cut_picture(const AttendRanges& ranges, AttentionPicture& picture) {
  const TapSelection chosen = ranges.selection();
  for (auto& [kind, tokens] : picture.tokens) {
    const std::size_t all_queries = tokens.queries.size(), all_keys = tokens.keys.size();
    const Bounds queries = bounds_of(chosen.queries, all_queries), keys = bounds_of(chosen.keys, all_keys);
    for (AttentionMap& map : picture.maps) {
      if (map.kind == kind && map.measure == "rollout") cut_map(map, queries, keys);
    }
    if (const auto steps = picture.candidates.find(kind); steps != picture.candidates.end())
      cut(steps->second, queries);
    cut(tokens.queries, queries);
    cut(tokens.keys, keys);
    tokens.query_range = queries;
    tokens.key_range = keys;
  }
  if (!ranges.keys.empty()) picture.image = {};
  picture.title = "[" + ranges.text() + "] " + picture.title;
}

}  // namespace heed::cli
