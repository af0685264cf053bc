// Opens a model for exploring, and encodes texts for it.
#include "explore/model/explored_model.h"

#include <algorithm>
#include <set>

#include "analyses/attend_picture.h"
#include "core/strings.h"
#include "explore/model/model_card.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/generate/complete.h"
#include "heed/generate/search.h"
#include "heed/models/kind.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/sound/sound.h"
#include "inspect/patch_grid.h"
#include "inspect/taps.h"
#include "inspect/token_input.h"
#include "models/steering.h"
#include "plot/labels.h"

namespace heed::explore {
namespace {

/// Of a model without a limit of its own, such as T5.
constexpr std::int64_t kMostTokens = 8192;
/// Outputs of an encoder-decoder that are kept.
constexpr std::size_t kKeptOutputs = 32;
/// Preprocessed files that are kept: of both sides, and of patches.
constexpr std::size_t kKeptFiles = 8;
/// Files that are held.
constexpr std::size_t kMostHeldBytes = 128u << 20, kMostHeldFiles = 32, kAlwaysHeld = 2;
/// Of files.
constexpr tasks::FileLimits kLimits{.image = {.pixels = 50'000'000}, .sound = {.seconds = 600}};
/// Of the sound that shows a model's heads.
constexpr std::int64_t kSampleFrames = 4;

std::string summary(const std::string& first, const std::string& second, const char* between) {
  return second.empty() ? first : first + between + second;
}

// A part of an opened model, which it keeps.
template <class Part>
std::shared_ptr<const Part> part_of(const LoadedModel& opened, const Part& part) {
  return {std::make_shared<const LoadedModel>(opened), &part};
}

// Whether a model is explored with its tokenizer: an encoder of sounds may do without, and shows characters
// as numbers.
bool has_texts(const LoadedModel& opened) {
  const Model& model = opened.model();
  if (model.vocab_size() == 0) return false;
  const bool writes = as<EncoderDecoderModel>(model) != nullptr;
  return model.input().kind == InputKind::tokens || writes || opened.has_tokenizer();
}

const AttentionKind kTextKind{"text", "text_encoder", "self_attn"};

}  // namespace

std::int64_t Files::add(std::string bytes) {
  files_.emplace_back(++last_, std::move(bytes));
  std::size_t held = 0;
  for (const auto& [number, file] : files_) held += file.size();
  while (files_.size() > kAlwaysHeld && (held > kMostHeldBytes || files_.size() > kMostHeldFiles)) {
    held -= files_.front().second.size();
    files_.pop_front();
  }
  return last_;
}

void Files::drop_last() { files_.pop_back(); }

const std::string& Files::bytes(std::int64_t number) const {
  for (const auto& [held, bytes] : files_) {
    if (held == number) return bytes;
  }
  throw Error("file: not found (choose the file again)");
}

const char* name_of(InputKind kind) {
  switch (kind) {
    case InputKind::tokens: return "text";
    case InputKind::pixels:
    case InputKind::patches: return "image";
    case InputKind::spectrogram:
    case InputKind::waveform: return "sound";
  }
  HEED_ASSERT(false, "unknown kind of input");
}

ExploredModel::ExploredModel(std::string name, std::shared_ptr<const Model> model,
                             std::shared_ptr<const Tokenizer> tokenizer, GenerationOptions generation,
                             tasks::FileProcessor processor)
    : name_(std::move(name)),
      model_(std::move(model)),
      shown_model_(model_.get()),
      dual_(as<DualEncoderModel>(*model_)),
      tokenizer_(std::move(tokenizer)),
      generation_(std::move(generation)),
      processor_(std::move(processor)) {
  if (dual_ != nullptr) shown_model_ = &dual_->image();
  if (architecture() == "encoder-decoder" && tokenizer_ == nullptr)
    throw Error("explore: expected a tokenizer beside " + model_->family() + ", which writes text, got none");
  HEED_ASSERT(!reads_files() ? tokenizer_ != nullptr : processor_.image || processor_.sound,
              "an explored model without what makes its input");
  kinds_ = attention_kinds(*shown_model_);
  if (transcribes()) std::erase_if(kinds_, [](const AttentionKind& kind) { return kind.name == "encoder"; });
  find_heads();
}

ExploredModel::ExploredModel(std::string name, const LoadedModel& opened)
    : ExploredModel(std::move(name), part_of(opened, opened.model()),
                    has_texts(opened) ? part_of(opened, opened.tokenizer()) : nullptr, opened.generation(),
                    opened.file_processor()) {
  opened_ = opened;
  if (transcribes()) static_cast<void>(opened.transcriber());  // says what is missing
  examples_ = examples_of(opened.directory());
}

ModelParts ExploredModel::parts() const {
  return {model(), tokenizer_.get(), reads_files() ? &processor_ : nullptr};
}

TensorMap ExploredModel::sample_input() const {
  const InputSpec input = model().input();
  if (!reads_files()) {
    const Tensor token = inspect::one_row({0});
    TensorMap inputs{{"input_ids", token}};
    if (architecture() == "encoder-decoder") inputs["decoder_input_ids"] = token;
    return inputs;
  }
  Shape row{1};
  for (const std::int64_t size : input.fitting())
    row.push_back(size >= 0 ? size : kSampleFrames * input.least);
  TensorMap inputs{{input.name, Tensor::zeros(row, DType::f32)}};
  if (architecture() == "encoder-decoder") inputs["decoder_input_ids"] = inspect::one_row({0});
  if (input.kind == InputKind::patches) inputs["spatial_shapes"] = inspect::one_row({1, row[1]});
  return inputs;
}

void ExploredModel::find_heads() {
  RecordOptions options{kinds_};
  options.values = true;
  AttentionRecord record = record_attention(model(), sample_input(), options);
  for (const AttentionKind& kind : kinds_) heads_[kind.name];
  if (dual() != nullptr) {
    const TensorMap label{{"input_ids", inspect::one_row(label_ids("1"))}};
    const AttentionRecord texts = record_attention(dual_->text(), label, RecordOptions{.kinds = {kTextKind}});
    record.layers.insert(record.layers.end(), texts.layers.begin(), texts.layers.end());
  }
  for (const RecordedLayer& layer : record.layers) {
    if (layer.kind == "cross") sample_frames_ = layer.all_keys;
    auto& counts = heads_[layer.kind];
    counts.resize(
        std::max(counts.size(), static_cast<std::size_t>(layer.layer) + 1));  // 0: without attention
    counts[static_cast<std::size_t>(layer.layer)] = layer.weights.size(0);
  }
  if (!reads_files()) value_maps_ = ValueMaps(model(), record.layers);
}

const std::vector<std::int64_t>& ExploredModel::heads(const std::string& kind,
                                                      const std::string& where) const {
  const auto found = heads_.find(kind);
  if (found != heads_.end()) return found->second;
  throw Error(where + ": expected " + joined(kinds_, ", ", &AttentionKind::name) +
              ", which the model has, got " + plot::shorten(plot::visible(kind), 40));
}

std::vector<AttentionKind> ExploredModel::kinds_of(const ExploredText& text) const {
  std::vector<AttentionKind> kinds = kinds_;
  if (!text.labels.empty()) kinds.push_back(kTextKind);
  return kinds;
}

AttentionKind ExploredModel::kind_named(const std::string& name) const {
  const auto found = std::find_if(kinds_.begin(), kinds_.end(),
                                  [&](const AttentionKind& kind) { return kind.name == name; });
  return found == kinds_.end() ? kTextKind : *found;
}

std::vector<std::int64_t> ExploredModel::label_ids(const std::string& label) const {
  const EncoderModel& tower = dual_->text();
  std::vector<std::int64_t> ids = inspect::tower_ids(tower, *tokenizer_, label);
  const std::string shown = "labels: \"" + plot::shorten(plot::visible(label), 40) + "\"";
  if (ids.empty()) throw Error(shown + ": expected at least one token");
  if (const auto most = tower.max_positions(); most && std::ssize(ids) > *most)
    throw Error(shown + ": expected at most " + std::to_string(*most) + " tokens, got " +
                std::to_string(ids.size()));
  return ids;
}

std::string ExploredModel::architecture() const {
  return visit(
      *model_, [](const DecoderModel&) { return "decoder"; },
      [](const EncoderDecoderModel&) { return "encoder-decoder"; }, [](const Model&) { return "encoder"; });
}

bool ExploredModel::transcribes() const {
  return model().input().is_sound() && architecture() == "encoder-decoder";
}

const std::string& ExploredModel::token(std::int64_t id) const {
  const auto [found, fresh] = shown_.try_emplace(id);
  if (!fresh) return found->second;
  found->second = std::to_string(id);
  try {
    if (tokenizer_ != nullptr)
      found->second = plot::visible(inspect::shown_tokens({tokenizer_->token(id)}, tokenizer_.get()).front());
  } catch (const Error&) {  // ids may outnumber the tokens
  }
  return found->second;
}

std::string ExploredModel::decoded(const std::vector<std::int64_t>& ids) const {
  std::vector<std::int64_t> known = ids;
  std::erase_if(known, [&](std::int64_t id) { return id >= tokenizer_->vocab_size(); });
  return tokenizer_->decode(known);
}

void ExploredModel::check_ids(const std::vector<std::int64_t>& ids, const char* where) const {
  const std::int64_t most = std::min(model_->max_positions().value_or(kMostTokens), kMostTokens);
  const auto count = static_cast<std::int64_t>(ids.size());
  if (count > most)
    throw Error(std::string(where) + ": expected at most " + std::to_string(most) + " tokens, got " +
                std::to_string(count));
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= model_->vocab_size())
      throw Error(std::string(where) + ": expected token ids below " + std::to_string(model_->vocab_size()) +
                  ", got " + std::to_string(id));
  }
}

Encoding ExploredModel::encoding_of(const RequestedText& text) const {
  if (!text.ids && architecture() != "decoder")
    return text.pair ? tokenizer_->encode_pair(*text.text, *text.pair) : tokenizer_->encode(*text.text);
  Encoding encoding;
  for (const std::int64_t id : text.ids ? *text.ids : prompt_ids(*tokenizer_, *text.text, generation_))
    encoding.push(id, "", {0, 0});
  return encoding;
}

Encoding ExploredModel::shown_encoding(const RequestedText& text) const {
  const char* nothing = "text: expected at least one token";
  if (text.text && architecture() == "decoder" && tokenizer_->encode(*text.text).ids.empty() &&
      !generation_.bos_token_id && !tokenizer_->bos_id())
    throw Error(nothing);
  Encoding encoding = encoding_of(text);
  check_ids(encoding.ids, text.ids ? "ids" : "text");
  if (encoding.ids.empty()) throw Error(nothing);
  encoding.type_ids.resize(encoding.ids.size());
  encoding.tokens.clear();
  for (const std::int64_t id : encoding.ids) encoding.tokens.push_back(token(id));
  return encoding;
}

std::vector<std::int64_t> ExploredModel::ids_of(const RequestedText& text) const {
  if (reads_files()) throw Error("text: expected a model that reads text, got " + name_);
  return encoding_of(text).ids;
}

void steer(Taps& taps, const TensorMap& vectors) {
  for (const auto& [tap, vector] : vectors) taps.listen(tap, replace_by_sum(vector));
}

void ExploredModel::offer_steering(const SteeringSource& source) {
  const double most = source.strength;
  Steering offered{source.file.filename().string(), most, "",
                   steering_by_taps(model(), {source.file, 1.0, source.layers})};
  std::set<std::int64_t> layers;
  for (const auto& [tap, vector] : offered.vectors)
    layers.insert(inspect::layer_of_tap(tap, tap.substr(0, tap.find('.')) + ".layers.", ".out").value());
  offered.layers = layers.size() == 1 ? "layer " + std::to_string(*layers.begin())
                                      : "layers " + std::to_string(*layers.begin()) + " to " +
                                            std::to_string(*layers.rbegin());
  steering_.push_back(std::move(offered));
}

TensorMap ExploredModel::steering_of(const std::vector<double>& strengths) const {
  if (strengths.size() > steering_.size())
    throw Error("steering: expected at most " + std::to_string(steering_.size()) + " strengths, as many as " +
                name_ + " has vectors, got " + std::to_string(strengths.size()));
  const NoGradients guard;
  TensorMap sums;
  for (std::size_t i = 0; i < strengths.size(); ++i) {
    if (strengths[i] == 0) continue;
    for (const auto& [tap, vector] : steering_[i].vectors) {
      Tensor& sum = sums[tap];
      sum = sum.defined() ? sum + vector * strengths[i] : vector * strengths[i];
    }
  }
  return sums;
}

std::vector<std::int64_t> ExploredModel::greedy_output(const EncoderDecoderModel& both,
                                                       const ExploredText& source,
                                                       std::int64_t max_new_tokens,
                                                       const std::vector<double>& strengths,
                                                       const std::atomic<bool>& stop) const {
  const std::vector<std::vector<std::int64_t>> sources{source.file ? std::vector{*source.file}
                                                                   : source.source};
  OutputKey key(sources.front(), max_new_tokens, strengths);
  if (const auto kept = outputs_.find(key); kept != outputs_.end()) return kept->second;
  GenerationOptions options = generation_;
  options.num_beams = options.num_return_sequences = 1;
  options.do_sample = false;
  options.early_stopping = EarlyStopping::no;
  options.max_new_tokens = max_new_tokens;
  Taps taps;
  steer(taps, steering_of(strengths));
  SearchHooks hooks;
  if (!strengths.empty()) hooks.taps = &taps;
  hooks.stop = &stop;
  const auto found = source.file ? search_features(both, source.inputs.at(model().input().name), {}, options,
                                                   kMostTokens, hooks)
                                 : search_sources(both, sources, options, kMostTokens, hooks);
  if (outputs_.size() >= kKeptOutputs) outputs_.clear();
  return outputs_[key] = found.front().front().ids;
}

// Without the frames of padding behind the sound.
ExploredText ExploredModel::heard_text(const std::string& bytes, const std::atomic<bool>& stop) const {
  HEED_ASSERT(opened_, "a model that transcribes without its files");
  SubjectRequest request;
  request.stop = &stop;
  const char* name = name_of(model().input().kind);
  ExploredText text{subject_of_recording(
      *opened_, SoundReader(bytes, name, {.rate = processor_.sound->rate(), .limits = kLimits.sound}),
      request)};
  text.title = name;
  const auto grid = inspect::patch_grid(model().input(), text.inputs);
  const std::int64_t frames = grid ? grid->positions() : sample_frames_;
  std::vector<std::string> labels = analyses::key_labels(frames, text, model().input());
  AttentionPicture picture;
  analyses::add_image(picture, text, model(), frames);
  text.image = std::move(picture.image);
  text.sound = std::move(picture.sound);
  labels.resize(static_cast<std::size_t>(text.image.columns));
  text.tokens["encoder"] = {labels, labels};
  return text;
}

std::vector<std::int64_t> ExploredModel::transcript_of(const ExploredText& heard,
                                                       const std::optional<std::string>& text) const {
  if (!text) return {heard.read.begin() + 1, heard.read.end()};
  std::vector<std::int64_t> ids(heard.read.begin() + 1, heard.read.begin() + heard.prefix);
  // A byte-level text, of Whisper, begins with a space.
  const bool spaced = model().input().kind == InputKind::spectrogram;
  const std::vector<std::int64_t> own =
      tokenizer_->encode(spaced ? " " + std::string(trimmed(*text)) : *text, false).ids;
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

ExploredText ExploredModel::file_text(std::int64_t number, const std::atomic<bool>& stop) const {
  const std::string& bytes = files_->bytes(number);  // throws for one that is forgotten
  const auto kept = file_texts_.find(number);
  if (kept != file_texts_.end()) return kept->second;
  ExploredText text =
      transcribes() ? heard_text(bytes, stop)
                    : ExploredText{subject_of_file(parts(), bytes, name_of(model().input().kind), kLimits)};
  text.file = number;
  if (file_texts_.size() >= kKeptFiles) file_texts_.erase(file_texts_.begin());
  return file_texts_[number] = text;
}

ExploredText ExploredModel::text_of(const RequestedText& text, std::int64_t max_new_tokens,
                                    const std::vector<double>& strengths,
                                    const std::atomic<bool>& stop) const {
  const char* reads = name_of(model().input().kind);
  if (text.file.has_value() != reads_files()) {
    const std::string given = text.file ? "file" : "text";
    throw Error(given + ": expected " + (reads == std::string("image") ? "an " : "a ") + reads + ", which " +
                name_ + " reads, got a " + given);
  }
  const auto* both = as<EncoderDecoderModel>(*model_);
  if (both == nullptr && (text.target || text.target_ids))
    throw Error("target: expected an encoder-decoder, got the " + architecture() + " " + name_);
  if (text.pair && architecture() != "encoder")
    throw Error("pair: expected an encoder, got the " + architecture() + " " + name_);
  ExploredText result;
  Encoding encoding;
  if (text.file) {
    result = file_text(*text.file, stop);
  } else {
    encoding = shown_encoding(text);
    result.source = encoding.ids;
  }
  if (both != nullptr) {
    result.target_ids = text.target_ids ? *text.target_ids
                        : transcribes() ? transcript_of(result, text.target)
                        : text.target   ? tokenizer_->encode_target(*text.target).ids
                                        : greedy_output(*both, result, max_new_tokens, strengths, stop);
    check_ids(*result.target_ids, text.target_ids ? "target_ids" : "target");
  }
  const SubjectOptions shown{.label = [this](std::int64_t id) { return token(id); }, .with_end = true};
  if (!text.file) {
    static_cast<Subject&>(result) = subject_of_tokens(parts(), encoding, result.target_ids, shown);
    result.title = text.text ? summary(*text.text, text.pair.value_or(""), " / ") : decoded(encoding.ids);
  } else if (both != nullptr) {
    // Words have the times of the transcript.
    if (transcribes() && *result.target_ids != transcript_of(result, {})) result.sound.words.clear();
    add_target(result, parts(), *result.target_ids, shown);
    if (transcribes()) result.tokens.erase("encoder");
  }
  if (both == nullptr) return result;
  check_ids(result.read, "target");
  result.title = summary(result.title, decoded(*result.target_ids), " → ");
  return result;
}

}  // namespace heed::explore
