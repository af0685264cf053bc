// A model with its tokenizer and settings.
#include "heed/api/loaded_model.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/strings.h"
#include "files/input_file.h"
#include "generate/option_fields.h"
#include "heed/autograd.h"
#include "heed/chat/model_chat.h"
#include "heed/error.h"
#include "heed/image/processor.h"
#include "heed/io/json.h"
#include "heed/models/find_model.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/ops/loss.h"
#include "heed/sound/processor.h"
#include "heed/sound/sound.h"
#include "heed/tasks/embed.h"
#include "heed/text/tokenizer.h"
#include "inspect/token_input.h"

namespace heed {
namespace {

bool has_attention(const Model& model) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model);
  return both == nullptr || both->has_self_attention() || both->has_cross_attention();
}

std::optional<Task> task_of(EncoderHead head) {
  switch (head) {
    case EncoderHead::none: return std::nullopt;
    case EncoderHead::ctc: return Task::transcribe;
    case EncoderHead::masked_lm: return Task::fill;
    case EncoderHead::sequence: return Task::classify;
    case EncoderHead::token: return Task::tag;
    case EncoderHead::span: return Task::answer;
  }
  HEED_ASSERT(false, "unknown head");
}

const char* name_of(EncoderHead head) {
  switch (head) {
    case EncoderHead::none: return "encoder";
    case EncoderHead::masked_lm: return "masked language model";
    case EncoderHead::sequence: return "sequence classifier";
    case EncoderHead::token: return "token classifier";
    case EncoderHead::span: return "question answering model";
    case EncoderHead::ctc: return "speech recognizer";
  }
  HEED_ASSERT(false, "unknown head");
}

std::vector<std::vector<Label>> with_names(const std::vector<std::string>& names,
                                           const std::vector<std::vector<LabelScore>>& all) {
  std::vector<std::vector<Label>> labels;
  for (const auto& scores : all) {
    labels.emplace_back();
    for (const LabelScore& one : scores) labels.back().push_back({names[one.index], one.score});
  }
  return labels;
}

// Of one prompt. `options` must outlive the result.
CompleteOptions complete_options(const GenerationOptions& generation, const GenerateOptions& options) {
  CompleteOptions all;
  all.generation = generation;
  all.stop_strings = options.stop_strings;
  all.grammar = options.grammar;
  all.task.stop = options.stop;
  if (options.on_text) {
    all.on_text = [&](std::size_t, std::size_t, const std::string& part) { return options.on_text(part); };
  }
  return all;
}

}  // namespace

const char* verb(Task task) {
  switch (task) {
    case Task::generate: return "continue text";
    case Task::translate: return "translate";
    case Task::fill: return "fill masks";
    case Task::classify: return "classify texts";
    case Task::classify_images: return "classify images";
    case Task::classify_sounds: return "classify sounds";
    case Task::tag: return "tag tokens";
    case Task::answer: return "answer questions";
    case Task::embed: return "embed texts";
    case Task::embed_images: return "embed images";
    case Task::attention: return "show attention";
    case Task::transcribe: return "transcribe sound";
    case Task::caption: return "caption images";
  }
  HEED_ASSERT(false, "unknown task");
}

std::vector<Task> tasks_of(const Model& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  if (dynamic_cast<const DualEncoderModel*>(&model) != nullptr)
    return {Task::classify_images, Task::embed, Task::embed_images};
  if (model.input().is_image() && encoder != nullptr) {
    if (encoder->head() == EncoderHead::none) return {Task::embed_images};
    return {Task::classify_images, Task::embed_images};
  }
  const bool decodes = dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr;
  if (decodes && model.input().is_image()) return {Task::caption};
  const EncoderHead head = encoder != nullptr ? encoder->head() : EncoderHead::none;
  if (model.input().is_sound() && (decodes || head == EncoderHead::ctc)) return {Task::transcribe};
  if (model.input().is_sound() && head == EncoderHead::sequence) return {Task::classify_sounds};
  if (model.input().kind != InputKind::tokens) return {};
  std::vector<Task> tasks;
  if (dynamic_cast<const DecoderModel*>(&model) != nullptr) tasks.push_back(Task::generate);
  if (decodes) tasks.push_back(Task::translate);
  if (encoder != nullptr) {
    if (const auto task = task_of(encoder->head())) tasks.push_back(*task);
  }
  tasks.push_back(Task::embed);
  if (has_attention(model)) tasks.push_back(Task::attention);
  return tasks;
}

std::string kind_of(const Model& model) {
  const std::string family = model.family();
  const bool vowel = std::string("aeio").find(family.front()) != std::string::npos;
  const char* name = "model";
  if (dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr) name = "encoder-decoder";
  if (dynamic_cast<const DecoderModel*>(&model) != nullptr) name = "decoder";
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) name = name_of(encoder->head());
  if (model.input().is_image()) name = "image model";
  if (dynamic_cast<const DualEncoderModel*>(&model) != nullptr) name = "dual encoder";
  return (vowel ? "an " : "a ") + family + " " + name;
}

// What copies share. The tokenizer, the recipe of vectors and the steps before an image model are read when
// they are first needed.
struct LoadedModel::State {
  std::filesystem::path root;  // of the whole model, where modules.json is
  std::string directory;       // of the transformer
  std::unique_ptr<const Model> model;

  const Tokenizer& tokenizer() const {
    std::call_once(tokenizer_once_, [this] { tokenizer_ = load_tokenizer(directory); });
    return *tokenizer_;
  }
  const ModelChat& chat() const {
    std::call_once(chat_once_, [this] { chat_ = ModelChat::load(directory, tokenizer()); });
    return *chat_;
  }
  const EmbeddingRecipe& recipe() const {
    std::call_once(recipe_once_, [this] { recipe_ = load_embedding_recipe(root, *model); });
    return recipe_;
  }
  const ImageProcessor& image_processor() const {
    std::call_once(processor_once_, [this] { processor_ = load_image_processor(directory); });
    return *processor_;
  }
  const SoundProcessor& sound_processor() const {
    std::call_once(sound_once_, [this] { sound_processor_ = load_sound_processor(directory); });
    return *sound_processor_;
  }
  const Transcriber& transcriber() const {
    std::call_once(transcriber_once_, [this] { transcriber_.emplace(*model, tokenizer(), directory); });
    return *transcriber_;
  }
  template <class Wanted>
  const Wanted& model_as(const char* expected) const {
    if (const auto* wanted = dynamic_cast<const Wanted*>(model.get())) return *wanted;
    throw Error(directory + ": expected " + expected + ", got " + kind_of(*model));
  }

 private:
  mutable std::once_flag sound_once_, tokenizer_once_, recipe_once_, processor_once_, transcriber_once_,
      chat_once_;
  mutable std::unique_ptr<const Tokenizer> tokenizer_;
  mutable std::optional<ModelChat> chat_;
  mutable EmbeddingRecipe recipe_;
  mutable std::optional<ImageProcessor> processor_;
  mutable std::optional<SoundProcessor> sound_processor_;
  mutable std::optional<Transcriber> transcriber_;
};

LoadedModel load(const std::string& name, const LoadOptions& options) {
  LocatedModel located = locate_model(name);
  for (const NamedAdapter& adapter : options.adapters)
    located.adapters.push_back(find_adapter(adapter.name, adapter.weight));
  auto state = std::make_shared<LoadedModel::State>();
  state->root = located.directory;
  state->directory = transformer_directory(located.directory).string();
  const bool head = options.head && !has_entry(located.directory / "modules.json");
  const WeightOptions weights{options.dtype, options.int8_activations};
  state->model = head ? load_model(state->directory, weights, located.adapters)
                      : load_model_body(state->directory, weights, located.adapters);
  LoadedModel loaded(state);
  if (loaded.can(Task::generate) || loaded.can(Task::translate) || loaded.can(Task::caption))
    loaded.generation_ = load_generation_options(state->directory);
  return loaded;
}

LoadedModel::LoadedModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const std::string& LoadedModel::directory() const { return state_->directory; }
std::string LoadedModel::kind() const { return kind_of(model()); }
std::vector<Task> LoadedModel::tasks() const { return tasks_of(model()); }

bool LoadedModel::can(Task task) const {
  const std::vector<Task> all = tasks();
  return std::find(all.begin(), all.end(), task) != all.end();
}

void LoadedModel::require(Task task) const {
  if (can(task)) return;
  std::string list;
  for (const Task other : tasks()) list += (list.empty() ? "it can " : ", ") + std::string(verb(other));
  if (list.empty()) list = "it takes tensors: see Model::forward";
  throw Error(directory() + ": " + kind() + " cannot " + verb(task) + " (" + list + ")");
}

const Model& LoadedModel::model() const { return *state_->model; }
const DecoderModel& LoadedModel::decoder() const { return state_->model_as<DecoderModel>("a decoder"); }
const EncoderDecoderModel& LoadedModel::encoder_decoder() const {
  return state_->model_as<EncoderDecoderModel>("an encoder-decoder");
}
const EncoderModel& LoadedModel::encoder() const { return state_->model_as<EncoderModel>("an encoder"); }
const DualEncoderModel& LoadedModel::dual_encoder() const {
  return state_->model_as<DualEncoderModel>("a model of texts and images");
}
const Tokenizer& LoadedModel::tokenizer() const {
  return tokenizer_ != nullptr ? *tokenizer_ : state_->tokenizer();
}

const ModelChat& LoadedModel::chat_templates() const { return state_->chat(); }

void LoadedModel::set_languages(std::optional<std::string> source, std::optional<std::string> target) {
  require(Task::translate);
  auto own = load_tokenizer(directory());
  if (const Languages* now = tokenizer().languages()) {
    if (!source) source = now->source.name;
    if (!target && now->target) target = now->target->name;
  }
  own->set_languages(source, target);
  const Languages& languages = *own->languages();
  if (languages.target) {
    (languages.starts_decoder ? generation_.decoder_start_token_id : generation_.forced_bos_token_id) =
        languages.target->id;
  }
  tokenizer_ = std::move(own);
}

std::string LoadedModel::generate(const std::string& prompt, const GenerateOptions& options) const {
  return generate(std::span(&prompt, 1), complete_options(generation_, options)).front().front().text;
}

std::vector<std::vector<Completion>> LoadedModel::generate(std::span<const std::string> prompts,
                                                           const CompleteOptions& options) const {
  require(Task::generate);
  return complete(decoder(), tokenizer(), prompts, options);
}

std::string LoadedModel::chat(std::span<const ChatMessage> messages, const GenerateOptions& options) const {
  require(Task::generate);
  JsonWriter json;
  json.begin_array();
  for (const ChatMessage& message : messages)
    json.begin_object().field("role", message.role).field("content", message.content).end_object();
  const std::vector<std::int64_t> prompt = chat_templates().prompt(json.end_array().text()).encoding.ids;
  CompleteOptions all = complete_options(generation_, options);
  generate::allow_whole_length(decoder(), all.generation);
  return complete(decoder(), tokenizer(), std::span(&prompt, 1), all).front().front().text;
}

std::string LoadedModel::chat(std::initializer_list<ChatMessage> messages,
                              const GenerateOptions& options) const {
  return chat(std::span(messages.begin(), messages.size()), options);
}

std::string LoadedModel::translate(const std::string& text) const {
  return translate(std::span(&text, 1)).front();
}

std::vector<std::string> LoadedModel::translate(std::span<const std::string> texts) const {
  TranslateOptions options;
  options.generation = generation_;
  std::vector<std::string> translations;
  for (const Translation& translation : translate(texts, options)) translations.push_back(translation.text());
  return translations;
}

std::vector<std::string> LoadedModel::translate(std::initializer_list<std::string> texts) const {
  return translate(std::span(texts.begin(), texts.size()));
}

std::vector<Translation> LoadedModel::translate(std::span<const std::string> texts,
                                                const TranslateOptions& options) const {
  require(Task::translate);
  return heed::translate(encoder_decoder(), tokenizer(), texts, options);
}

FilledText LoadedModel::fill(const std::string& text, std::int64_t top_k) const {
  return fill(std::span(&text, 1), top_k).front();
}

std::vector<FilledText> LoadedModel::fill(std::span<const std::string> texts, std::int64_t top_k,
                                          const TaskOptions& options) const {
  require(Task::fill);
  return fill_masks(encoder(), tokenizer(), texts, top_k, options);
}

std::vector<Label> LoadedModel::classify(const std::string& text, std::int64_t top_k) const {
  return classify(TextPair{text}, top_k);
}

std::vector<Label> LoadedModel::classify(const TextPair& text, std::int64_t top_k) const {
  return classify(std::span(&text, 1), top_k).front();
}

std::vector<std::vector<Label>> LoadedModel::classify(std::span<const TextPair> texts, std::int64_t top_k,
                                                      const TaskOptions& options) const {
  require(Task::classify);
  return with_names(encoder().labels(), heed::classify(encoder(), tokenizer(), texts, top_k, options));
}

std::vector<Label> LoadedModel::classify_image(const std::string& file, std::int64_t top_k) const {
  return classify_images(std::span(&file, 1), top_k).front();
}

std::vector<std::vector<Label>> LoadedModel::classify_images(std::span<const std::string> files,
                                                             std::int64_t top_k,
                                                             const TaskOptions& options) const {
  require(Task::classify_images);
  if (dynamic_cast<const DualEncoderModel*>(&model()) != nullptr)
    throw Error(directory() + ": expected labels, among which " + kind() + " chooses, got none");
  return with_names(encoder().labels(),
                    heed::classify_images(encoder(), state_->image_processor(), files, top_k, options));
}

std::vector<Label> LoadedModel::classify_sound(const std::string& file, std::int64_t top_k) const {
  return classify_sounds(std::span(&file, 1), top_k).front();
}

std::vector<std::vector<Label>> LoadedModel::classify_sounds(std::span<const std::string> files,
                                                             std::int64_t top_k,
                                                             const TaskOptions& options) const {
  require(Task::classify_sounds);
  return with_names(encoder().labels(),
                    heed::classify_sounds(encoder(), state_->sound_processor(), files, top_k, options));
}

std::vector<Label> LoadedModel::classify_image(const std::string& file, std::span<const std::string> labels,
                                               std::int64_t top_k) const {
  return classify_images(std::span(&file, 1), labels, top_k).front();
}

std::vector<std::vector<Label>> LoadedModel::classify_images(std::span<const std::string> files,
                                                             std::span<const std::string> labels,
                                                             std::int64_t top_k,
                                                             const TaskOptions& options) const {
  const DualEncoderModel& dual = dual_encoder();
  return with_names(
      {labels.begin(), labels.end()},
      heed::classify_images(dual, tokenizer(), state_->image_processor(), files, labels, top_k, options));
}

Transcript LoadedModel::transcribe(const std::string& file, const TranscribeOptions& options) const {
  require(Task::transcribe);
  const Transcriber& transcriber = state_->transcriber();
  return transcriber(SoundReader(file, {.rate = transcriber.rate()}), options);
}

std::string LoadedModel::caption(const std::string& file) const {
  CaptionOptions options;
  options.generation = generation_;
  return caption(std::span(&file, 1), options).front().front().text;
}

std::vector<std::vector<Caption>> LoadedModel::caption(std::span<const std::string> files,
                                                       const CaptionOptions& options) const {
  require(Task::caption);
  return caption_images(encoder_decoder(), tokenizer(), state_->image_processor(), files, options);
}

std::vector<TaggedText> LoadedModel::tag(const std::string& text) const {
  return tag(std::span(&text, 1), {}).front();
}

std::vector<std::vector<TaggedText>> LoadedModel::tag(std::span<const std::string> texts,
                                                      const TagOptions& options) const {
  require(Task::tag);
  return heed::tag(encoder(), tokenizer(), texts, options);
}

Answer LoadedModel::answer(const std::string& question, const std::string& context) const {
  const Question one{question, context};
  return answer(std::span(&one, 1), {}).front().front();
}

std::vector<std::vector<Answer>> LoadedModel::answer(std::span<const Question> questions,
                                                     const AnswerOptions& options) const {
  require(Task::answer);
  return heed::answer(encoder(), tokenizer(), questions, options);
}

Tensor LoadedModel::embed(std::span<const std::string> texts, const TaskOptions& options) const {
  require(Task::embed);
  return heed::embed(model(), tokenizer(), texts, state_->recipe(), options);
}

Tensor LoadedModel::embed(std::initializer_list<std::string> texts) const {
  return embed(std::span(texts.begin(), texts.size()));
}

Tensor LoadedModel::embed_images(std::span<const std::string> files, const TaskOptions& options) const {
  require(Task::embed_images);
  return heed::embed_images(model(), state_->image_processor(), files, state_->recipe(), options);
}

struct LoadedModel::Input {
  TensorMap tensors;
  inspect::TokensByKind tokens;
};

LoadedModel::Input LoadedModel::input(const std::string& text,
                                      const std::optional<std::string>& target) const {
  if (tasks().empty()) require(Task::attention);
  if (target) require(Task::translate);
  const Encoding encoding = tokenizer().encode(text);
  if (encoding.ids.empty()) throw Error(directory() + ": expected a text with at least one token, got none");
  if (dynamic_cast<const DecoderModel*>(&model()) != nullptr)
    return {{{"input_ids", inspect::one_row(encoding.ids)}},
            {{"decoder", {encoding.tokens, encoding.tokens}}}};
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model());
  if (both == nullptr) {
    inspect::TokenInput input = inspect::encoder_input(model(), encoding);
    return {std::move(input.tensors), std::move(input.tokens)};
  }
  std::vector<std::int64_t> produced;
  if (target) {
    produced = tokenizer().encode_target(*target).ids;
  } else {
    TranslateOptions options;
    options.generation = generation_;
    produced = translate(std::span(&text, 1), options).front().candidates.front().hypothesis.ids;
  }
  if (produced.empty()) throw Error(directory() + ": expected a target with at least one token, got none");
  const Tensor fed = both->decoder_inputs(inspect::one_row(produced), CrossEntropyOptions().ignore_index);
  return {{{"input_ids", inspect::one_row(encoding.ids)}, {"decoder_input_ids", fed}},
          inspect::encoder_decoder_tokens(encoding.tokens, inspect::token_names(&tokenizer(), produced),
                                          inspect::token_names(&tokenizer(), fed.to_vector<std::int64_t>()))};
}

TextAttention LoadedModel::attention(const std::string& text, const AttentionChoice& options) const {
  require(Task::attention);
  const std::vector<AttentionKind> kinds = attention_kinds(model());
  auto kind = kinds.begin();
  if (!options.kind.empty())
    kind = std::find_if(kinds.begin(), kinds.end(),
                        [&](const AttentionKind& each) { return each.name == options.kind; });
  if (kind == kinds.end())
    throw Error("attention: expected the kind " + joined(kinds, " or ", &AttentionKind::name) + ", got " +
                options.kind);
  const Input input = this->input(text, options.target);
  RecordOptions recorded;
  recorded.kinds = {*kind};
  recorded.layers = options.layers;
  recorded.heads = options.heads;
  AttentionRecord record = record_attention(model(), input.tensors, recorded);
  for (const std::int64_t layer : options.layers) {
    const auto is_layer = [&](const RecordedLayer& one) { return one.layer == layer; };
    if (std::none_of(record.layers.begin(), record.layers.end(), is_layer))
      throw Error("attention: layer " + std::to_string(layer) + " not found in " + directory());
  }
  const inspect::TokensByKind::const_iterator tokens = input.tokens.find(kind->name);
  return {tokens->second.queries, tokens->second.keys, std::move(record.layers)};
}

TensorMap LoadedModel::forward(const std::string& text, Taps& taps,
                               const std::optional<std::string>& target) const {
  const NoGradients guard;
  Context context{.taps = &taps};
  TensorMap outputs = model().forward(input(text, target).tensors, {}, context);
  taps.require_all_fired();
  return outputs;
}

}  // namespace heed
