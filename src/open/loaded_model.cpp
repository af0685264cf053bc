// An opened model and its parts.
#include "heed/open/loaded_model.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <utility>

#include "core/strings.h"
#include "files/gguf_file.h"
#include "files/mapped_files.h"
#include "generate/option_fields.h"
#include "heed/autograd.h"
#include "heed/chat/model_chat.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/models/find_model.h"
#include "heed/models/kind.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/open/subject.h"
#include "heed/sound/sound.h"
#include "heed/tasks/embed.h"
#include "heed/text/tokenizer.h"
#include "models/weights.h"
#include "tasks/file_input.h"

namespace heed {
namespace {

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

// What copies share.
struct LoadedModel::State {
  State(LocatedModel found, const LoadOptions& given)
      : located(std::move(found)),
        options(given),
        all(model_files(located.directory)),
        files(transformer_files(all)),
        directory(files.where()) {}

  const LocatedModel located;
  const LoadOptions options;
  const ModelFiles all, files;  // with modules.json, and those of the transformer
  const std::string directory;

  Model& model() const {
    std::call_once(model_once_, [this] { model_ = load(); });
    return *model_;
  }
  const Tokenizer& tokenizer() const {
    std::call_once(tokenizer_once_, [this] {
      std::error_code error;
      const bool alone = std::filesystem::is_regular_file(located.directory, error) && !files.is_gguf();
      tokenizer_ = alone ? load_tokenizer(located.directory) : load_tokenizer(files);
    });
    return *tokenizer_;
  }
  const ModelChat& chat() const {
    std::call_once(chat_once_, [this] {
      chat_ = ModelChat::load(files, tokenizer());
      try {
        if (const auto most = trained_length(model(), tokenizer())) chat_->limit_tokens(*most);
      } catch (const Error&) {  // a tokenizer without a model
      }
    });
    return *chat_;
  }
  const GenerationOptions& generation() const {
    std::call_once(generation_once_, [this] {
      for (const Task task : {Task::generate, Task::translate, Task::caption}) {
        if (heed::can(model(), task)) generation_ = load_generation_options(files);
      }
      // What a file says beyond what the model was trained for is no wish of a user.
      constexpr std::int64_t kMost = 1 << 20;
      const std::int64_t most = model().trained_positions().value_or(kMost);
      for (auto* length : {&generation_.max_new_tokens, &generation_.max_length})
        if (*length) *length = std::min(**length, most);
    });
    return generation_;
  }
  const EmbeddingRecipe& recipe() const {
    std::call_once(recipe_once_,
                   [this] { mapped_.add_from([this] { recipe_ = load_embedding_recipe(all, model()); }); });
    return recipe_;
  }
  const tasks::FileProcessor& processor() const {
    std::call_once(processor_once_,
                   [this] { processor_ = tasks::load_file_processor(model().input(), files); });
    return processor_;
  }
  const Transcriber& transcriber() const {
    std::call_once(transcriber_once_, [this] { transcriber_.emplace(model(), tokenizer(), files); });
    return *transcriber_;
  }
  const MappedFiles& mapped() const { return mapped_; }
  template <class Wanted>
  const Wanted& model_as(const char* expected) const {
    if (const auto* wanted = as<Wanted>(model())) return *wanted;
    throw Error(directory + ": expected " + expected + ", got " + kind_of(model()));
  }

 private:
  std::unique_ptr<Model> load() const {
    WeightOptions weights{options.dtype, options.activations};
    weights.separate_output = options.separate_output;
    weights.head = options.head.value_or(!all.has("modules.json"));
    std::unique_ptr<Model> model;
    mapped_.add_from([&] {
      model = load_model(files, weights, located.adapters);
      steer_model(*model, located.steering);
    });
    if (files.is_gguf()) {  // which may have been opened before
      for (const auto& file : files.gguf()->files()) mapped_.add(file);
    }
    return model;
  }

  mutable MappedFiles mapped_;
  mutable std::once_flag model_once_, tokenizer_once_, chat_once_, generation_once_, recipe_once_,
      processor_once_, transcriber_once_;
  mutable std::unique_ptr<Model> model_;
  mutable std::unique_ptr<const Tokenizer> tokenizer_;
  mutable std::optional<ModelChat> chat_;
  mutable GenerationOptions generation_;
  mutable EmbeddingRecipe recipe_;
  mutable tasks::FileProcessor processor_;
  mutable std::optional<Transcriber> transcriber_;
};

LoadedModel open_model(const std::string& name, const LoadOptions& options) {
  LocatedModel located = locate_model(name);
  for (const NamedAdapter& adapter : options.adapters)
    located.adapters.push_back(find_adapter(adapter.name, adapter.weight));
  for (const SteeringFile& one : options.steering)
    located.steering.push_back({one.file, one.strength, one.layers});
  const bool whole = located.adapters.empty() && located.steering.empty();
  LoadedModel opened(std::make_shared<const LoadedModel::State>(std::move(located), options));
  if (whole) return opened;
  try {
    static_cast<void>(opened.model());  // while the paths of what changes it are where they lead to
  } catch (const Error&) {              // said when the model is asked for
  }
  return opened;
}

LoadedModel open_tokenizer(const std::string& name) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(name, error)) return open_model(name);
  return LoadedModel(std::make_shared<const LoadedModel::State>(LocatedModel{name}, LoadOptions()));
}

std::string model_path(const std::string& name) { return find_model(name).string(); }

LoadedModel load(const std::string& name, const LoadOptions& options) {
  LoadedModel loaded = open_model(name, options);
  static_cast<void>(loaded.generation());  // and the model: what is wrong with them is said here
  return loaded;
}

LoadedModel::LoadedModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const std::string& LoadedModel::directory() const { return state_->directory; }
std::string LoadedModel::location() const { return state_->located.directory.string(); }
const ModelFiles& LoadedModel::files() const { return state_->files; }
std::vector<std::string> LoadedModel::adapters() const {
  std::vector<std::string> directories;
  for (const AdapterSource& adapter : state_->located.adapters)
    directories.push_back(adapter.directory.string());
  return directories;
}

std::string LoadedModel::kind() const { return kind_of(model()); }
std::vector<Task> LoadedModel::tasks() const { return tasks_of(model()); }

bool LoadedModel::can(Task task) const { return heed::can(model(), task); }

void LoadedModel::require_unchanged_files() const { state_->mapped().require_unchanged(); }

void LoadedModel::require(Task task) const {
  require_unchanged_files();
  if (can(task)) return;
  std::string list;
  for (const Task other : tasks()) list += (list.empty() ? "it can " : ", ") + std::string(verb(other));
  if (list.empty()) list = "it takes tensors: see Model::forward";
  throw Error(directory() + ": " + kind() + " cannot " + verb(task) + " (" + list + ")");
}

GenerationOptions& LoadedModel::generation() {
  if (!generation_) generation_ = state_->generation();
  return *generation_;
}

const GenerationOptions& LoadedModel::generation() const {
  return generation_ ? *generation_ : state_->generation();
}

const Model& LoadedModel::model() const { return state_->model(); }
Model& LoadedModel::changeable_model() const { return state_->model(); }
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

bool LoadedModel::has_tokenizer() const {
  try {
    static_cast<void>(tokenizer());
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<Tokenizer> LoadedModel::own_tokenizer() const { return load_tokenizer(files()); }

const ModelChat& LoadedModel::chat_templates() const { return state_->chat(); }
bool LoadedModel::has_chat_template() const { return ModelChat::has_template(files()); }
const EmbeddingRecipe& LoadedModel::recipe() const { return state_->recipe(); }
const Transcriber& LoadedModel::transcriber() const { return state_->transcriber(); }
const tasks::FileProcessor& LoadedModel::file_processor() const { return state_->processor(); }

const ImageProcessor& LoadedModel::image_processor() const {
  if (const auto& image = file_processor().image) return *image;
  throw Error(directory() + ": expected a model of images, got " + kind());
}

const SoundProcessor& LoadedModel::sound_processor() const {
  if (const auto& sound = file_processor().sound) return *sound;
  throw Error(directory() + ": expected a model of sounds, got " + kind());
}

std::vector<std::string> LoadedModel::warnings() const {
  std::vector<std::string> lines;
  const auto are = [](const std::vector<std::string>& names) { return names.size() == 1 ? " is" : " are"; };
  const std::vector<std::string> settings = model().unknown_settings(), tensors = model().unused_tensors();
  if (!settings.empty()) {
    lines.push_back(files().where("config.json") + ": " + joined(settings) + are(settings) +
                    " not supported and ignored");
  }
  if (!tensors.empty()) {
    lines.push_back(files().where() + ": " + name_list(tensors) + are(tensors) +
                    " not used by the model and ignored");
  }
  return lines;
}

void LoadedModel::set_languages(std::optional<std::string> source, std::optional<std::string> target) {
  require(Task::translate);
  auto own = own_tokenizer();
  if (const Languages* now = tokenizer().languages()) {
    if (!source) source = now->source.name;
    if (!target && now->target) target = now->target->name;
  }
  own->set_languages(source, target);
  const Languages& languages = *own->languages();
  if (languages.target) {
    (languages.starts_decoder ? generation().decoder_start_token_id : generation().forced_bos_token_id) =
        languages.target->id;
  }
  tokenizer_ = std::move(own);
}

std::string LoadedModel::generate(const std::string& prompt, const GenerateOptions& options) const {
  return generate(std::span(&prompt, 1), complete_options(generation(), options)).front().front().text;
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
  CompleteOptions all = complete_options(generation(), options);
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
  options.generation = generation();
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
  if (as<DualEncoderModel>(model()) != nullptr)
    throw Error(directory() + ": expected labels, among which " + kind() + " chooses, got none");
  return with_names(encoder().labels(),
                    heed::classify_images(encoder(), image_processor(), files, top_k, options));
}

std::vector<Label> LoadedModel::classify_sound(const std::string& file, std::int64_t top_k) const {
  return classify_sounds(std::span(&file, 1), top_k).front();
}

std::vector<std::vector<Label>> LoadedModel::classify_sounds(std::span<const std::string> files,
                                                             std::int64_t top_k,
                                                             const TaskOptions& options) const {
  require(Task::classify_sounds);
  return with_names(encoder().labels(),
                    heed::classify_sounds(encoder(), sound_processor(), files, top_k, options));
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
      heed::classify_images(dual, tokenizer(), image_processor(), files, labels, top_k, options));
}

Transcript LoadedModel::transcribe(const std::string& file, const TranscribeOptions& options) const {
  require(Task::transcribe);
  const Transcriber& transcriber = this->transcriber();
  return transcriber(SoundReader(file, {.rate = transcriber.rate()}), options);
}

std::string LoadedModel::caption(const std::string& file) const {
  CaptionOptions options;
  options.generation = generation();
  return caption(std::span(&file, 1), options).front().front().text;
}

std::vector<std::vector<Caption>> LoadedModel::caption(std::span<const std::string> files,
                                                       const CaptionOptions& options) const {
  require(Task::caption);
  return caption_images(encoder_decoder(), tokenizer(), image_processor(), files, options);
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
  return heed::embed(model(), tokenizer(), texts, recipe(), options);
}

Tensor LoadedModel::embed(std::initializer_list<std::string> texts) const {
  return embed(std::span(texts.begin(), texts.size()));
}

Tensor LoadedModel::embed_images(std::span<const std::string> files, const TaskOptions& options) const {
  require(Task::embed_images);
  return heed::embed_images(model(), image_processor(), files, recipe(), options);
}

Subject LoadedModel::subject(const std::string& text, const std::optional<std::string>& target) const {
  if (tasks().empty()) require(Task::attention);
  if (target) require(Task::translate);
  const Encoding encoding = tokenizer().encode(text);
  std::optional<std::vector<std::int64_t>> produced;
  if (target) {
    produced = tokenizer().encode_target(*target).ids;
  } else if (as<EncoderDecoderModel>(model()) != nullptr && !encoding.ids.empty()) {
    TranslateOptions options;
    options.generation = generation();
    produced = translate(std::span(&text, 1), options).front().candidates.front().hypothesis.ids;
  }
  return subject_of_tokens({model(), &tokenizer(), nullptr, directory()}, encoding, produced);
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
  const Subject subject = this->subject(text, options.target);
  RecordOptions recorded;
  recorded.kinds = {*kind};
  recorded.layers = options.layers;
  recorded.heads = options.heads;
  AttentionRecord record = record_attention(model(), subject.inputs, recorded);
  for (const std::int64_t layer : options.layers) {
    const auto is_layer = [&](const RecordedLayer& one) { return one.layer == layer; };
    if (std::none_of(record.layers.begin(), record.layers.end(), is_layer))
      throw Error("attention: layer " + std::to_string(layer) + " not found in " + directory());
  }
  const AttentionTokens& tokens = subject.tokens.find(kind->name)->second;
  return {tokens.queries, tokens.keys, std::move(record.layers)};
}

TensorMap LoadedModel::forward(const std::string& text, Taps& taps,
                               const std::optional<std::string>& target) const {
  require_unchanged_files();
  const NoGradients guard;
  Context context{.taps = &taps};
  TensorMap outputs = model().forward(subject(text, target).inputs, {}, context);
  taps.require_all_fired();
  return outputs;
}

}  // namespace heed
