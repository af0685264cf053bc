// Records the attention of a subject, and makes a picture of what was chosen.
#include "heed/analyses/attend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "analyses/attend_picture.h"
#include "core/strings.h"
#include "heed/analyses/analyses.h"
#include "heed/models/kind.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "inspect/taps.h"
#include "inspect/token_input.h"
#include "models/non_finite.h"

namespace heed {

using namespace analyses;  // NOLINT: its own parts

namespace {

// Multiply-adds that ablation may take for a page that nobody asked it for: about 2 s of a slow core.
constexpr double kCheapAblation = 1e10;

using Bounds = std::array<std::int64_t, 2>;

bool has_kind(const std::vector<AttentionKind>& kinds, const std::string& name) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const AttentionKind& kind) { return kind.name == name; });
}

bool has(const std::vector<std::string>& list, const char* word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// Of two towers, in figures, the pooling of images stands for their self-attention unless that is asked for.
std::vector<AttentionKind> kinds_of(const DualEncoderModel& model, const AttendOptions& options) {
  std::vector<AttentionKind> kinds = attention_kinds(model);
  const std::string& name = options.kind;
  const bool asked = has(options.show, "rollout") || !options.patch.empty() || options.time;
  const bool pools = kinds.back().name == "pooling";
  std::erase_if(kinds, [&](const AttentionKind& kind) {
    if (!name.empty()) return name != kind.name && !(name == "self" && kind.is_self());
    if (asked && !kind.is_self()) return true;
    return kind.name == "image" && pools && !asked && is_figure(options);
  });
  if (kinds.empty())
    throw OptionError("kind",
                      fmt::format("expected {}, got {}",
                                  pools ? "image, text, pooling or self" : "image, text or self", name));
  return kinds;
}

// The page of a recording leaves out the attention of the encoder, which is millions of weights.
std::vector<AttentionKind> kinds_of(const Model& model, const Subject& subject,
                                    const AttendOptions& options) {
  if (const auto* towers = as<DualEncoderModel>(model)) return kinds_of(*towers, options);
  const std::vector<AttentionKind> available = attention_kinds(model);
  const bool crosses = !available.front().is_self(), rollout = has(options.show, "rollout");
  const bool page = options.form == AttendForm::page, heard = !subject.sound.words.empty();
  const std::string& name = options.kind;
  std::vector<AttentionKind> kinds;
  for (const AttentionKind& kind : available) {
    const bool wanted =
        name.empty() ? !crosses || (page && !(heard && kind.name == "encoder")) || kind.is_self() == rollout
                     : name == kind.name || (name == "self" && kind.is_self());
    if (wanted) kinds.push_back(kind);
  }
  if (kinds.empty())
    throw OptionError("kind", "expected " +
                                  (available.size() > 1 ? std::string("self, cross, encoder or decoder")
                                                        : std::string(crosses ? "cross" : "self") +
                                                              ", the only kind of this model") +
                                  ", got " + (name.empty() ? "none for --show rollout" : name));
  if (rollout && !name.empty() && !kinds.front().is_self())
    throw OptionError("show rollout",
                      "expected self-attention (--kind self, encoder or decoder), got --kind cross");
  return kinds;
}

std::vector<std::string> measures_of(const AttendOptions& options, const std::vector<AttentionKind>& kinds) {
  if (!options.show.empty()) return options.show;
  const bool whole = !options.layers && options.heads <= AttendHeads::all && options.chosen_heads.empty() &&
                     options.all_positions();
  const bool self = std::any_of(kinds.begin(), kinds.end(), [](const auto& kind) { return kind.is_self(); });
  if (options.form != AttendForm::page || !whole || !self) return {"weights"};
  return {"weights", "rollout"};
}

MapChoice choice_of(const AttendOptions& options) {
  const bool usual_mean = options.heads == AttendHeads::usual && options.form == AttendForm::terminal;
  return {options.layers.value_or(std::vector<std::int64_t>()), options.chosen_heads,
          options.heads == AttendHeads::mean || usual_mean, options.heads == AttendHeads::max};
}

TapRange range_of(const std::string& text, const char* option) {
  if (text.empty()) return {};
  const auto range = inspect::tap_range(text);
  if (!range) throw OptionError(option, "expected positions like 3, 2:5, 2: or :5, got " + text);
  return *range;
}

// The positions that were chosen.
struct Ranges {
  explicit Ranges(const AttendOptions& options)
      : queries(range_of(options.queries, "queries")), keys(range_of(options.keys, "keys")) {}
  TapRange queries, keys;
};

Bounds bounds_of(const TapRange& range, std::size_t size) {
  return {range.begin, range.end.value_or(static_cast<std::int64_t>(size))};
}

void check_range(const char* option, const std::string& given, const TapRange& range, const std::string& kind,
                 std::size_t size) {
  const auto [begin, end] = bounds_of(range, size);
  if (begin < end && end <= static_cast<std::int64_t>(size)) return;
  throw OptionError(
      option,
      fmt::format("expected positions of the {} of {} attention, counted from 0, got {}", size, kind, given));
}

// Of images and sounds, the model knows.
void check_ranges(const AttendOptions& options, const Ranges& ranges, const Subject& subject,
                  const std::vector<AttentionKind>& kinds) {
  for (const AttentionKind& kind : kinds) {
    const auto tokens = subject.tokens.find(kind.name);
    if (tokens == subject.tokens.end()) continue;
    check_range("queries", options.queries, ranges.queries, kind.name, tokens->second.queries.size());
    if (tokens->second.keys.empty()) continue;
    check_range("keys", options.keys, ranges.keys, kind.name, tokens->second.keys.size());
  }
}

// The chosen part of a record of all positions.
AttentionRecord cut_record(const Ranges& ranges, const AttentionRecord& record) {
  AttentionRecord result = record;
  for (RecordedLayer& layer : result.layers) {
    const auto cut_axis = [](Tensor& x, int axis, const TapRange& range, std::int64_t size) {
      if (!x.defined()) return;
      const auto [begin, end] = bounds_of(range, static_cast<std::size_t>(size));
      x = slice(x, axis, begin, end).contiguous();
    };
    for (Tensor* all : {&layer.weights, &layer.gradient, &layer.q})
      cut_axis(*all, 1, ranges.queries, layer.all_queries);
    for (Tensor* all : {&layer.weights, &layer.gradient}) cut_axis(*all, 2, ranges.keys, layer.all_keys);
    for (Tensor* all : {&layer.value_norms, &layer.k, &layer.v})
      cut_axis(*all, 1, ranges.keys, layer.all_keys);
  }
  return result;
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

// Cuts the tokens, what belongs to them, and the maps that have all positions. An image is left out where
// only some of its keys are shown.
void cut_picture(const AttendOptions& options, const Ranges& ranges, AttentionPicture& picture) {
  for (auto& [kind, tokens] : picture.tokens) {
    const Bounds queries = bounds_of(ranges.queries, tokens.queries.size()),
                 keys = bounds_of(ranges.keys, tokens.keys.size());
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
  if (!options.keys.empty()) picture.image = {};
  picture.title = "[" + options.range_text() + "] " + picture.title;
}

// Records the towers that options.kinds name, text by text. With a gradient, which is that of the similarity,
// the image has maps for each text: `image for text 1`, ...
AttentionRecord record_towers(const DualEncoderModel& model, const Subject& subject, RecordOptions options) {
  const auto is_text = [](const AttentionKind& kind) { return is_text_kind(kind.name); };
  const std::size_t count = subject.texts.size();
  if (count == 0 || std::none_of(options.kinds.begin(), options.kinds.end(), is_text)) {
    std::erase_if(options.kinds, is_text);
    if (!options.gradient) return record_attention(model.image(), subject.inputs, options);
  }
  AttentionRecord all;
  for (std::size_t i = 0; i < count; ++i) {
    TensorMap tensors = subject.inputs;
    tensors["input_ids"] = subject.texts[i];
    for (RecordedLayer& layer : record_attention(model, tensors, options).layers) {
      const bool text = is_text_kind(layer.kind);
      if (!text && i > 0 && !options.gradient) continue;  // the image is the same for all
      if (count > 1 && (text || options.gradient))
        layer.kind += (text ? " " : " for text ") + std::to_string(i + 1);
      all.layers.push_back(std::move(layer));
    }
  }
  std::stable_partition(all.layers.begin(), all.layers.end(),
                        [](const RecordedLayer& layer) { return !is_text_kind(layer.kind); });
  return all;
}

AttentionRecord attention_of(const Model& model, const Subject& subject, const RecordOptions& options) {
  const auto* towers = as<DualEncoderModel>(model);
  return towers != nullptr ? record_towers(*towers, subject, options)
                           : record_attention(model, subject.inputs, options);
}

// The id of a token of the vocabulary, or of a number.
std::int64_t token_id(const std::string& token, const Tokenizer* tokenizer) {
  if (tokenizer != nullptr) {
    for (const char* begin : {"", "▁", "Ġ"}) {
      if (const auto id = tokenizer->token_to_id(begin + token)) return *id;
    }
  }
  if (!token.empty() && token.find_first_not_of("0123456789") == std::string::npos && token.size() < 10)
    return std::stoll(token);
  throw OptionError("token", "expected one token of the vocabulary or its id, got \"" + token + "\"");
}

std::int64_t positions_of(const Tensor& logits) { return logits.rank() == 3 ? logits.size(1) : 1; }

// The token that follows a position in the text or target, else the most probable one, or label.
std::int64_t token_at(std::int64_t position, const Tensor& logits, const Subject& subject) {
  const auto at = static_cast<std::size_t>(position);
  if (logits.rank() == 3 && at < subject.following.size() && subject.following[at] >= 0)
    return subject.following[at];
  const Tensor row = logits.rank() == 3 ? slice(logits, 1, position, position + 1) : logits;
  return argmax(reshape(row.contiguous(), {row.numel()}), 0).to_vector<std::int64_t>().front();
}

[[noreturn]] void fail_without_logits(const Model& model, const char* option) {
  throw Error(std::string("attend: expected a model with logits for --") + option + ", got " +
              model.family() + " without a head");
}

// The logit that the gradient explains: at the position of the mask token, else the last.
LogitChoice chosen_logit(const AttendOptions& options, const Subject& subject, const ModelParts& model) {
  const Tensor logits = record_attention(model.model, subject.inputs, {attention_kinds(model.model)}).logits;
  if (!logits.defined()) fail_without_logits(model.model, "show gradient");
  const std::int64_t positions = positions_of(logits);
  LogitChoice choice;
  choice.position =
      options.position.value_or(logits.rank() == 3 ? subject.mask_position.value_or(positions - 1) : 0);
  if (choice.position >= positions)
    throw OptionError("position",
                      fmt::format("expected a position below {}, got {}", positions, choice.position));
  const TokenChoice& chosen = options.token;
  const bool by_name = chosen.token && !chosen.id && predicts_tokens(model.model);
  choice.token = by_name          ? token_id(*chosen.token, model.tokenizer)
                 : chosen.given() ? chosen_id(chosen, model.model, model.tokenizer)
                                  : token_at(choice.position, logits, subject);
  const std::int64_t most = logits.size(logits.rank() - 1);
  if (choice.token >= most)
    throw OptionError("token", fmt::format("expected an id below {}, got {}", most, choice.token));
  return choice;
}

// Whether to run the model without each chosen head of the record. The default depends on the work alone: a
// pass multiplies each position by each parameter.
bool ablates(const AttendOptions& options, const AttentionRecord& record, const MapChoice& choice,
             const Model& model) {
  if (options.ablate) return *options.ablate;
  if (options.form != AttendForm::page || !record.logits.defined()) return false;
  double passes = 0, positions = 0, parameters = 0;
  for (const RecordedLayer& layer : record.layers) {
    passes += static_cast<double>(heads_of(choice, layer.weights.size(0)).size());
    positions = std::max(positions, static_cast<double>(std::max(layer.all_queries, layer.all_keys)));
  }
  for (const Parameter& parameter : model.parameters())
    parameters += static_cast<double>(parameter.tensor.numel());
  return passes * positions * parameters <= kCheapAblation;
}

// Runs the model once per head of the record and adds what its logits lose, position by position.
void add_ablations(AttentionPicture& picture, const AttentionRecord& record, HeadAblationOptions ablation,
                   const Subject& subject, const ModelParts& model, const AnalysisProgress& progress) {
  if (!record.logits.defined()) fail_without_logits(model.model, "ablate");
  std::vector<LogitChoice> choices;
  for (std::int64_t position = 0; position < positions_of(record.logits); ++position) {
    choices.push_back({position, token_at(position, record.logits, subject)});
    picture.scored.push_back(name_of(choices.back().token, model));
  }
  ablation.ablation.progress = [&](std::int64_t done, std::int64_t total) {
    if (progress) progress(done, total, "heads removed");
  };
  const auto ablations = ablate_heads(model.model, subject.inputs, record, choices, ablation);
  ablation.ablation.progress(std::ssize(ablations), std::ssize(ablations));
  for (const HeadAblation& one : ablations) {
    const auto found = std::find_if(picture.facts.begin(), picture.facts.end(), [&](const HeadFacts& facts) {
      return facts.kind == one.kind && facts.layer == one.layer && facts.head == one.head;
    });
    HeadFacts& facts = found != picture.facts.end()
                           ? *found
                           : picture.facts.emplace_back(HeadFacts{one.kind, one.layer, one.head, {}, {}});
    facts.ablation = one.change;
  }
}

void keep_layers(AttentionRecord& record, const MapChoice& choice) {
  std::erase_if(record.layers, [&](const RecordedLayer& layer) { return !choice.has_layer(layer.layer); });
}

void check_layers(const MapChoice& choice, const AttentionRecord& record) {
  std::set<std::int64_t> layers;
  for (const RecordedLayer& layer : record.layers) layers.insert(layer.layer);
  for (const std::int64_t layer : choice.layers) {
    if (!layers.contains(layer))
      throw OptionError(
          "layers",
          std::to_string(layer) + " not found (heed models MODEL lists the model's layers, counted from 0)");
  }
}

bool is_finite(const AttentionRecord& record) {
  return std::none_of(record.layers.begin(), record.layers.end(),
                      [](const RecordedLayer& layer) { return first_non_finite(layer.weights); }) &&
         !(record.logits.defined() && first_non_finite(record.logits));
}

// How many parts a file has, and when its frames are, the record says.
void forget_parts(Subject& subject, const Model& model) {
  if (model.input().kind == InputKind::tokens) return;
  subject.tokens.erase("encoder");
  if (const auto cross = subject.tokens.find("cross"); cross != subject.tokens.end())
    cross->second.keys.clear();
}

}  // namespace

std::string AttendOptions::range_text() const {
  return (queries.empty() ? "" : "queries " + queries) + (queries.empty() || keys.empty() ? "" : ", ") +
         (keys.empty() ? "" : "keys " + keys);
}

AttendedSubject attend(const ModelParts& parts, Subject subject, const AttendOptions& options) {
  const Model& model = parts.model;
  forget_parts(subject, model);
  MapChoice choice = choice_of(options);
  const Ranges ranges(options);
  const bool page = options.form == AttendForm::page, towers = as<DualEncoderModel>(model) != nullptr;
  RecordOptions recorded{kinds_of(model, subject, options)};
  const std::vector<std::string> measures = measures_of(options, recorded.kinds);
  check_ranges(options, ranges, subject, recorded.kinds);
  if (!has(measures, "rollout")) {  // which takes all layers and positions
    recorded.layers = choice.layers;
    recorded.queries = ranges.queries;
    recorded.keys = ranges.keys;
  }
  recorded.value_norms = page || has(measures, "norms");
  recorded.vectors = page;
  const HeadAblationOptions ablation{
      .heads = choice.heads,
      .ablation = {.replacement = options.replacement,
                   .reference = options.reference,
                   .seed = options.seed,
                   .removed = components_named(options.remove, recorded.kinds.front())}};
  Taps removed;
  AttendedSubject attended{{.title = subject.title, .sound = subject.sound}};
  AttentionPicture& picture = attended.picture;
  if (!options.remove.empty()) {
    if (towers) throw OptionError("remove", "expected a model of one tower, got " + model.family());
    replace_components(removed, model, subject.inputs, ablation.ablation);
    recorded.taps = &removed;
    picture.title += fmt::format(" (with {} for {})", text_of(options.replacement), options.remove);
  }
  if (has(measures, "gradient") && towers) {
    if (subject.texts.empty())
      throw OptionError("show gradient", "missing --text, whose similarity it is of");
    recorded.gradient = LogitChoice();
    picture.title += " (gradient of the similarity)";
  } else if (has(measures, "gradient")) {
    recorded.gradient = chosen_logit(options, subject, parts);
    picture.title += fmt::format(" (gradient of {} at {})", name_of(recorded.gradient->token, parts),
                                 recorded.gradient->position);
  }
  AttentionRecord record = attention_of(model, subject, recorded);
  check_layers(choice, record);
  const bool crosses = has_kind(recorded.kinds, "cross");
  const bool words = subject.inputs.contains("pixel_values") || !subject.sound.words.empty();
  if (is_figure(options) && options.all_positions() && words && subject.alignment_heads.empty() && crosses) {
    // A map for each word is enough.
    choice.mean_of_heads = choice.mean_of_heads || options.heads == AttendHeads::usual;
    if (!options.layers) choice.layers = {record.layers.back().layer};
  }
  attended.finite = is_finite(record);
  add_missing_tokens(subject, record, model.input());
  for (const RecordedLayer& layer : record.layers) {
    if (picture.tokens.contains(layer.kind)) continue;
    AttentionTokens& tokens = picture.tokens[layer.kind] = subject.tokens[layer.kind];
    if (options.form == AttendForm::numbers) continue;
    tokens = {inspect::shown_tokens(tokens.queries, parts.tokenizer),
              inspect::shown_tokens(tokens.keys, parts.tokenizer)};
  }
  const AttentionRecord whole = record;
  if (has(measures, "rollout") && !options.all_positions()) record = cut_record(ranges, whole);
  const bool aligns = options.heads == AttendHeads::alignment ||
                      (options.heads == AttendHeads::usual && !options.layers && crosses &&
                       !subject.alignment_heads.empty() && is_figure(options));
  for (const std::string& measure : measures) {
    if (aligns && measure != "rollout") {
      keep_layers(record, choice);
      add_alignment(picture, record, subject, measure);
    } else {
      add_measure(picture, measure == "rollout" ? whole : record, choice, measure);
    }
  }
  if (page) add_page_facts(picture, record, subject, parts, options.most_vectors);
  keep_layers(record, choice);
  if (ablates(options, record, choice, model))
    add_ablations(picture, record, ablation, subject, parts, options.progress);
  if (!options.all_positions()) cut_picture(options, ranges, picture);
  picture = laid_out(std::move(picture), subject, model, options);
  return attended;
}

}  // namespace heed
