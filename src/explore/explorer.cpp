// Runs of models, kept for the chunks of their maps.
#include "explore/explorer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/json.h"
#include "explore/views/views.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/inspect/ablation.h"
#include "heed/models/kind.h"
#include "inspect/token_input.h"
#include "plot/page_data.h"

namespace heed::explore {
namespace {

using nlohmann::json;

/// Numbers of the maps of a run: at most so many; with 16 bits each up to so many.
constexpr std::int64_t kMostNumbers = 60'000'000, kFineNumbers = 4'000'000;
/// Runs beyond so many bytes are forgotten, oldest first, but never the last two: one of each side.
constexpr std::size_t kHeldBytes = 256u << 20, kHeldRuns = 2;
constexpr std::size_t kListedCandidates = 6;

json model_json(const ExploredModel& model, std::size_t index) {
  const auto* encoder = as<EncoderModel>(model.model());
  json value{{"index", index},
             {"name", model.name()},
             {"family", model.model().family()},
             {"kind", model.architecture()},
             {"input", name_of(model.model().input().kind)},
             {"head", nullptr},
             {"labels", json::array()},
             {"examples", model.examples()},
             {"steering", json::array()},
             {"layers", {{"decoder", 0}, {"encoder", 0}}},
             {"heads", {{"decoder", 0}, {"encoder", 0}, {"cross", 0}}},
             {"max_positions", nullptr},
             {"takes_pair", encoder != nullptr && !model.reads_files()},
             {"takes_target", model.architecture() == "encoder-decoder"},
             {"takes_labels", model.dual() != nullptr},
             {"mask_token", nullptr}};
  for (const ExploredModel::Steering& one : model.steering())
    value["steering"].push_back({{"name", one.name}, {"most", one.most}, {"layers", one.layers}});
  if (encoder != nullptr) {
    value["head"] = inspect::name_of(encoder->head());
    value["labels"] = encoder->labels();
  }
  std::vector<AttentionKind> kinds = model.kinds();
  if (model.dual() != nullptr) kinds.push_back(model.kind_named("text"));
  for (const AttentionKind& kind : kinds) {
    const std::vector<std::int64_t>& heads = model.heads(kind.name);
    // Towers have names of their own.
    const char* stack = kind.stack == "decoder" ? "decoder" : kind.name == "text" ? "text" : "encoder";
    if (kind.name == "text") value["layers"]["text"] = 0;
    value["layers"][stack] = std::max(value["layers"][stack].get<std::size_t>(), heads.size());
    value["heads"][kind.name] = heads.empty() ? 0 : *std::max_element(heads.begin(), heads.end());
  }
  if (model.model().max_positions()) value["max_positions"] = *model.model().max_positions();
  if (model.reads_files()) return value;
  if (const auto mask = model.tokenizer()->mask_id()) value["mask_token"] = model.tokenizer()->token(*mask);
  return value;
}

// Numbers of the maps, rollout included.
std::int64_t check_map_numbers(const ExploredModel& model, const ExploredText& text) {
  std::int64_t numbers = 0;
  for (const AttentionKind& kind : model.kinds()) {
    const AttentionTokens& tokens = text.tokens.at(kind.name);
    const std::int64_t cells = std::ssize(tokens.queries) * std::ssize(tokens.keys);
    for (const std::int64_t heads : model.heads(kind.name)) numbers += (heads + 1) * cells;
  }
  if (numbers > kMostNumbers) {
    const std::string what = name_of(model.model().input().kind);
    std::int64_t tokens = 0;
    for (const auto& [kind, of_kind] : text.tokens) tokens = std::max(tokens, std::ssize(of_kind.keys));
    // Maps of n tokens are n² numbers.
    const double share = std::sqrt(static_cast<double>(kMostNumbers) / static_cast<double>(numbers));
    const auto most = static_cast<std::int64_t>(share * static_cast<double>(tokens));
    const std::string parts = what == "text" ? " tokens" : what == "image" ? " parts" : " frames";
    throw Error(what + ": expected at most " + std::to_string(most) + parts + ", got " +
                std::to_string(tokens) + " (the maps of all heads take too much memory: choose a " +
                (what == "image" ? "smaller " : "shorter ") + what + ")");
  }
  return numbers;
}

// Where an answer begins in the text, of a model that finds one.
std::optional<std::int64_t> answer_position(const ExploredModel& model, const ExploredText& text,
                                            const std::vector<std::vector<inspect::RankedToken>>& ranked) {
  const auto* encoder = as<EncoderModel>(model.model());
  if (encoder == nullptr || encoder->head() != EncoderHead::span || ranked.empty() || !text.labels.empty())
    return std::nullopt;
  return ranked.front().front().id;
}

std::map<std::string, std::vector<std::int64_t>> tokens_in(const ExploredText& text) {
  if (text.file) return {{"file", {*text.file}}, {"decoder_input_ids", text.read}};
  std::map<std::string, std::vector<std::int64_t>> tokens;
  for (const auto& [name, ids] : text.inputs) tokens[name] = ids.to_vector<std::int64_t>();
  return tokens;
}

void leave_out_padding(AttentionRecord& record, const ExploredText& text) {
  for (RecordedLayer& layer : record.layers) {
    const std::int64_t keys = std::ssize(text.tokens.at(layer.kind).keys);
    for (Tensor* numbers : {&layer.weights, &layer.value_norms}) *numbers = shown_keys(*numbers, -1, keys);
    for (Tensor* vectors : {&layer.k, &layer.v}) *vectors = shown_keys(*vectors, -2, keys);
  }
}

AttentionPicture picture_of_run(const ExploredModel& model, const ExploredText& text,
                                const AttentionRecord& record, const PredictedRows& rows,
                                const std::vector<std::vector<inspect::RankedToken>>& ranked) {
  AttentionPicture picture;
  picture.title = text.title;
  picture.model = {model.name(), inspect::task_of(model.model()), {}, answer_position(model, text, ranked)};
  if (picture.model.task == "masked_lm" && !rows.positions.empty()) picture.mask_position = rows.positions[0];
  picture.tokens = text.tokens;
  picture.image = text.image;
  picture.sound = text.sound;
  for (const RecordedLayer& layer : record.layers)
    inspect::add_heads(picture, layer, layer.weights, "weights");
  inspect::add_rollout(picture, record);
  inspect::add_facts(picture, record, INT64_MAX);
  if (model.architecture() == "encoder") return picture;
  std::vector<std::vector<Candidate>> steps;
  for (const auto& row : ranked) {
    std::vector<Candidate>& step = steps.emplace_back();
    for (std::size_t i = 0; i < std::min(row.size(), kListedCandidates); ++i)
      step.push_back({model.token(row[i].id), row[i].probability});
  }
  for (const AttentionKind& kind : model.kinds()) {
    if (kind.stack == "decoder") picture.candidates[kind.name] = steps;
  }
  return picture;
}

/// The chunks of maps that the page draws first, by their numbers; of maps that are not there, none.
json shown_chunks(const json& description, const std::vector<plot::PagePack>& chunks, const ShownMaps& show) {
  json shown = json::object();
  for (const json& kind : description["kinds"]) {
    if (kind["kind"] != show.kind) continue;
    for (const json& map : kind["maps"]) {
      if (map["layer"] != show.layer || map["measure"] != "weights" ||
          (show.head && map["head"] != *show.head))
        continue;
      const auto index = map["pack"].get<std::size_t>();
      shown[std::to_string(index)] = plot::pack_numbers(chunks[index].numbers, chunks[index].bits);
    }
  }
  return shown;
}

}  // namespace

/// A run whose chunks can still be asked for.
struct Explorer::HeldRun {
  AttentionPicture picture;
  std::vector<plot::PagePack> chunks = {};
  std::size_t bytes() const {
    std::size_t numbers = 0;
    for (const plot::PagePack& chunk : chunks) numbers += chunk.numbers.size();
    return numbers * sizeof(float);
  }
};

/// The last run without changes.
struct Explorer::Unchanged {
  std::size_t model = 0;
  std::map<std::string, std::vector<std::int64_t>> tokens = {};
  std::vector<std::string> labels = {};
  Tensor logits = {};
};

Explorer::Explorer(std::vector<ExploredModel> models)
    : models_(std::move(models)),
      files_(std::make_shared<Files>()),
      unchanged_(std::make_unique<Unchanged>()) {
  for (ExploredModel& model : models_) model.take_files_from(files_);
}
Explorer::~Explorer() = default;

std::string Explorer::models() const {
  json list = json::array();
  for (std::size_t i = 0; i < models_.size(); ++i) list.push_back(model_json(models_[i], i));
  return json_text(json{{"models", std::move(list)}});
}

const ExploredModel& Explorer::model_at(std::size_t index) const {
  if (index < models_.size()) {
    models_[index].require_unchanged_files();
    return models_[index];
  }
  throw Error("model: expected a number below " + std::to_string(models_.size()) + ", got " +
              std::to_string(index));
}

ExploredText Explorer::text_of(const RunRequest& run, const std::atomic<bool>& stop) const {
  const ExploredModel& model = model_at(run.model);
  ExploredText text = model.text_of(run.text, run.max_new_tokens, run.steering, stop);
  check_labels(model, run.labels);
  text.labels = run.labels;
  check_map_numbers(model, text);
  return text;
}

std::string Explorer::add_file(std::size_t model, std::string bytes, const std::atomic<bool>& stop) {
  const ExploredModel& reader = model_at(model);
  RequestedText text;
  text.file = files_->add(std::move(bytes));
  try {
    check_map_numbers(reader, reader.text_of(text, 1, {}, stop));
  } catch (const Error&) {
    files_->drop_last();
    throw;
  }
  return json_text(json{{"file", *text.file}});
}

void Explorer::remember(std::size_t model, const ExploredText& text, const Tensor& logits) {
  *unchanged_ = {model, tokens_in(text), text.labels, logits};
}

Tensor Explorer::unchanged_logits(std::size_t model, const ExploredText& text,
                                  const std::atomic<bool>& stop) {
  if (unchanged_->logits.defined() && unchanged_->model == model && unchanged_->tokens == tokens_in(text) &&
      unchanged_->labels == text.labels)
    return unchanged_->logits;
  const NoGradients guard;
  Context context{.stop = &stop};
  const TensorMap outputs = models_[model].model().forward(text.inputs, {}, context);
  remember(model, text, predicted_rows(models_[model], text, outputs, context).logits);
  return unchanged_->logits;
}

std::int64_t Explorer::hold(std::shared_ptr<const HeldRun> run) {
  const std::lock_guard lock(mutex_);
  runs_[++last_run_] = std::move(run);
  std::size_t bytes = 0;
  for (const auto& [number, held] : runs_) bytes += held->bytes();
  while (bytes > kHeldBytes && runs_.size() > kHeldRuns) {
    bytes -= runs_.begin()->second->bytes();
    runs_.erase(runs_.begin());
  }
  return last_run_;
}

std::string Explorer::run(const RunRequest& wanted, const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  const ExploredModel& model = model_at(wanted.model);
  ExploredText text = model.text_of(wanted.text, wanted.max_new_tokens, wanted.steering, stop);
  check_labels(model, wanted.labels);
  text.labels = wanted.labels;
  const std::int64_t numbers = check_map_numbers(model, text);
  Taps taps;
  add_changes(taps, model, text, wanted, stop);
  RecordOptions options{model.kinds()};
  options.value_norms = model.value_maps().empty();
  options.values = !options.value_norms;
  options.vectors = wanted.vectors;
  options.taps = &taps;
  options.stop = &stop;
  AttentionRecord record = record_attention(model.model(), text.inputs, options);
  const NoGradients guard;
  leave_out_padding(record, text);
  Context context{.taps = &taps, .stop = &stop};
  const PredictedRows rows = predicted_rows(model, text, record.outputs, context);
  const auto best = ranked(rows, wanted.candidates);
  std::optional<std::int64_t> label;
  if (!text.labels.empty()) {
    label = wanted.label.value_or(best.front().front().id);
    add_label(model, text, static_cast<std::size_t>(*label), options, record);
  }
  for (RecordedLayer& layer : record.layers) {
    if (options.values) layer.value_norms = model.value_maps().norms(layer);
  }
  taps.require_all_fired();
  Tensor before;
  if (is_unchanged(wanted)) {
    remember(wanted.model, text, rows.logits);
  } else if (rows.logits.defined()) {
    before = unchanged_logits(wanted.model, text, stop);
  }
  auto held = std::make_shared<HeldRun>(HeldRun{picture_of_run(model, text, record, rows, best)});
  plot::PageData data = plot::page_data(held->picture, numbers <= kFineNumbers ? 16 : 8);
  held->chunks = std::move(data.packs);
  json shown = wanted.show ? shown_chunks(data.description, held->chunks, *wanted.show) : json(nullptr);
  json answer{{"ids", text.source},
              {"text", wanted.text.ids ? model.decoded(text.source) : wanted.text.text.value_or("")},
              {"target_ids", nullptr},
              {"target", nullptr},
              {"data", std::move(data.description)},
              {"labels", text.labels},
              {"label", nullptr},
              {"predictions", predictions_json(model, text, rows, best, before)},
              {"changes", changes_json(wanted.changes)}};
  if (wanted.show) answer["shown"] = std::move(shown);
  if (label) answer["label"] = *label;
  if (model.transcribes())
    answer["heard"] = {
        {"seconds", text.sound.seconds}, {"window", text.window}, {"more", !text.note.empty()}};
  if (text.target_ids) {
    answer["target_ids"] = *text.target_ids;
    answer["target"] = model.decoded(*text.target_ids);
  }
  answer["run"] = hold(std::move(held));
  answer["milliseconds"] =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  return json_text(answer);
}

std::string Explorer::ids(const RunRequest& wanted, const std::atomic<bool>&) {
  return json_text(json{{"ids", model_at(wanted.model).ids_of(wanted.text)}});
}

std::optional<std::string> Explorer::chunk(std::int64_t run, std::int64_t chunk) const {
  std::shared_ptr<const HeldRun> held;
  {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(run);
    if (found == runs_.end()) return std::nullopt;
    held = found->second;
  }
  if (chunk < 0 || chunk >= std::ssize(held->chunks)) return std::nullopt;
  const plot::PagePack& one = held->chunks[static_cast<std::size_t>(chunk)];
  return plot::pack_numbers(one.numbers, one.bits);
}

std::string Explorer::ablation(const AblationRequest& wanted, const std::atomic<bool>& stop) {
  const ExploredModel& model = model_at(wanted.run.model);
  ExploredText text = text_of(wanted.run, stop);
  RecordOptions options;
  options.stop = &stop;
  for (const AttentionKind& kind : model.kinds_of(text)) {
    if (!wanted.kind || *wanted.kind == kind.name) options.kinds.push_back(kind);
  }
  if (wanted.kind) model.heads(*wanted.kind);  // throws for a kind that the model lacks
  if (wanted.layer) {
    std::int64_t layers = 0;
    for (const AttentionKind& kind : options.kinds)
      layers = std::max(layers, std::ssize(model.heads(kind.name)));
    if (*wanted.layer >= layers)
      throw Error("layer: expected a layer below " + std::to_string(layers) + ", got " +
                  std::to_string(*wanted.layer));
    options.layers = {*wanted.layer};
  }
  const Model* measured = &model.model();
  LogitChoice choice{wanted.position, wanted.id};
  if (!text.labels.empty()) {  // the image's logit with one label
    if (wanted.id >= std::ssize(text.labels))
      throw Error("id: expected one below " + std::to_string(text.labels.size()) + ", got " +
                  std::to_string(wanted.id));
    measured = model.dual();
    text.inputs["input_ids"] =
        inspect::one_row(model.label_ids(text.labels[static_cast<std::size_t>(wanted.id)]));
    choice = {0, 0};
  }
  const AttentionRecord record = record_attention(*measured, text.inputs, options);
  if (!record.logits.defined())
    throw Error("ablation: expected a model with logits, got " + model.name() + " without");
  const std::int64_t positions = record.logits.rank() == 3 ? record.logits.size(1) : 1;
  const std::int64_t tokens = record.logits.size(record.logits.rank() - 1);
  if (choice.position >= positions)
    throw Error("position: expected one below " + std::to_string(positions) + ", got " +
                std::to_string(wanted.position));
  if (choice.token >= tokens)
    throw Error("id: expected one below " + std::to_string(tokens) + ", got " + std::to_string(wanted.id));
  const std::vector<LogitChoice> choices{choice};
  json list = json::array();
  for (const HeadAblation& one :
       ablate_heads(*measured, text.inputs, record, choices, {.heads = {}, .ablation = {}, .stop = &stop}))
    list.push_back(
        {{"kind", one.kind}, {"layer", one.layer}, {"head", one.head}, {"change", one.change.front()}});
  return json_text(json{{"change", std::move(list)}});
}

template <class Request, class View>
std::string Explorer::view(const Request& wanted, const std::atomic<bool>& stop, View view) {
  const ExploredModel& model = model_at(wanted.run.model);
  const ExploredText text = text_of(wanted.run, stop);
  Taps changes;
  add_changes(changes, model, text, wanted.run, stop);
  return json_text(view(model, text, wanted, changes, stop));
}

std::string Explorer::flow(const FlowRequest& wanted, const std::atomic<bool>& stop) {
  return view(wanted, stop, flow_json);
}

std::string Explorer::steps(const StepsRequest& wanted, const std::atomic<bool>& stop) {
  return view(wanted, stop, head_steps_json);
}

std::string Explorer::why(const WhyRequest& wanted, const std::atomic<bool>& stop) {
  return view(wanted, stop, why_json);
}

std::string Explorer::mistakes(const MistakesRequest& wanted, const std::atomic<bool>& stop) {
  return json_text(mistakes_json(model_at(wanted.run.model), text_of(wanted.run, stop), wanted, stop));
}

}  // namespace heed::explore
