// The front door, and the one way to open a model: its weights, tokenizer, processors, chat templates and
// settings are parts of one object, each read when it is first asked for, and members do what the model can
// do.
//   const heed::LoadedModel model = heed::load("en-fr");
//   std::puts(model.translate("The black cat drinks milk.").c_str());
// Underneath are functions and classes that take a model and a tokenizer separately, with every option.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/dtype.h"
#include "heed/export.h"
#include "heed/generate/complete.h"
#include "heed/generate/translate.h"
#include "heed/inspect/record.h"
#include "heed/nn/tap.h"
#include "heed/nn/weight.h"
#include "heed/open/capabilities.h"
#include "heed/tasks/answer.h"
#include "heed/tasks/caption.h"
#include "heed/tasks/classify.h"
#include "heed/tasks/fill.h"
#include "heed/tasks/tag.h"
#include "heed/tasks/transcribe.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class DecoderModel;
class DualEncoderModel;
class EncoderDecoderModel;
class EncoderModel;
class ImageProcessor;
class Model;
class ModelChat;
class ModelFiles;
class SoundProcessor;
class Tokenizer;
class Transcriber;
struct EmbeddingRecipe;
struct Subject;
namespace tasks {
struct FileProcessor;
}

/// A LoRA adapter by its name or directory, and the factor on what it adds.
struct NamedAdapter {
  std::string name;
  double weight = 1.0;
};

/// A file of steering vectors (heed/models/steering.h), and the factor on them.
struct SteeringFile {
  std::string file;
  double strength = 1.0;
  TapRange layers = {};  ///< the layers of the file that are used
};

struct LoadOptions {
  DType dtype = DType::f32;  ///< of the weights in memory: f32 or bf16
  /// What products with quantized weights take (Model::use_activations): int8 is faster, but not
  /// bit-identical to the dequantized model. Only f32 and int8 mean the same on every processor.
  Activations activations = Activations::automatic;
  std::vector<NamedAdapter> adapters = {};
  /// Whether an encoder has the head that config.json names. Without it, it makes vectors of texts, and the
  /// files may lack the head. By default, models of sentence-transformers (modules.json) have none.
  std::optional<bool> head = {};
  std::vector<SteeringFile> steering = {};  ///< added to the residual stream of every pass
  /// An output map that is tied to the token table becomes a separate weight (WeightOptions).
  bool separate_output = false;
};

/// Options of LoadedModel::generate() and chat() for one prompt, besides the settings.
struct GenerateOptions {
  /// Called with every part of the text once it is final (possibly empty). Returning false ends the text. Not
  /// available with beam search, whose text is known only at the end.
  std::function<bool(const std::string& part)> on_text = {};
  std::vector<std::string> stop_strings = {};  ///< texts that end the continuation; they are kept in it
  std::optional<Grammar> grammar = {};         ///< constrains the text (heed/grammar/grammar.h)
  const std::atomic<bool>* stop = nullptr;     ///< cancels the call once true: it throws Canceled
};

/// A message of a conversation.
struct ChatMessage {
  std::string role;  ///< `user`, `assistant` or `system`, or another that the model's template knows
  std::string content;
};

/// A label of a text or an image, with its score (heed/tasks/classify.h).
struct Label {
  std::string name;
  double score = 0;
};

/// Which weights LoadedModel::attention() returns. Empty lists mean all.
struct AttentionChoice {
  std::string kind = {};  ///< `cross`, `encoder` or `decoder`; empty: the first that the model has
  std::vector<std::int64_t> layers = {};
  std::vector<std::int64_t> heads = {};  ///< in increasing order; no others are computed
  /// For an encoder-decoder, the text that its decoder reads; by default its own translation.
  std::optional<std::string> target = {};
};

/// Attention weights of one text.
struct TextAttention {
  std::vector<std::string> queries,
      keys;                           ///< tokens; cross-attention: those that are produced, and the source's
  std::vector<RecordedLayer> layers;  ///< `weights` f32 [chosen heads, queries, keys]
};

/// A model with its tokenizer and settings, as load() returns it. Copies share weights and tokenizer, and
/// each has its own settings.
///
/// Calls record no gradients. A call that the model does not support throws Error, which says what the model
/// is and what it can do. A text that cannot be used throws Error too. Calls with a span take many texts, in
/// batches, and return one result for each, in order; the result of a text does not depend on the others.
/// Threads: several may call const functions of one object, or of copies, at once.
class LoadedModel {
 public:
  /// The folder of the model; for a model of sentence-transformers, the folder of its transformer. The names
  /// of its files in messages begin with it.
  const std::string& directory() const;
  /// The whole of it as it was found: of sentence-transformers, the directory with modules.json.
  std::string location() const;
  /// Its files (heed/files/model_files.h).
  const ModelFiles& files() const;
  /// The directories of its adapters.
  std::vector<std::string> adapters() const;
  std::string kind() const;         ///< kind_of(model())
  std::vector<Task> tasks() const;  ///< tasks_of(model()); for an encoder without its head: embed, attention
  bool can(Task task) const;

  /// The settings of generate(), translate() and caption(): at first those of the model's files.
  GenerationOptions& generation();
  const GenerationOptions& generation() const;
  /// Chooses the languages of a model that translates between several, as it spells them (fr, fra_Latn,
  /// fr_XX); nullopt leaves what is set. Throws Error naming the nearest languages for an unknown one.
  void set_languages(std::optional<std::string> source, std::optional<std::string> target);

  /// Continues a prompt. Returns the new text, which often begins with a space. Conversations are for chat().
  std::string generate(const std::string& prompt, const GenerateOptions& options = {}) const;
  /// Prompts with every option: complete() (heed/generate/complete.h). The settings are options.generation,
  /// not those of this object: begin with `options.generation = model.generation()`.
  std::vector<std::vector<Completion>> generate(std::span<const std::string> prompts,
                                                const CompleteOptions& options) const;

  /// Answers a conversation, which the model's chat template turns into a prompt. Returns the text of the
  /// next message, without the end token. Without a length in the settings, the answer ends where the model
  /// ends it, or when it and the conversation have as many tokens as the training texts. Throws Error for a
  /// model without a template, a conversation that the template rejects, and one that leaves no room for an
  /// answer.
  std::string chat(std::span<const ChatMessage> messages, const GenerateOptions& options = {}) const;
  std::string chat(std::initializer_list<ChatMessage> messages, const GenerateOptions& options = {}) const;

  /// Translates, or summarizes, or whatever the encoder-decoder was trained for.
  std::string translate(const std::string& text) const;
  std::vector<std::string> translate(std::span<const std::string> texts) const;
  std::vector<std::string> translate(std::initializer_list<std::string> texts) const;
  /// With every option, as generate(): heed::translate() (heed/generate/translate.h).
  std::vector<Translation> translate(std::span<const std::string> texts,
                                     const TranslateOptions& options) const;

  /// The most probable tokens for each mask token of a text (heed/tasks/fill.h).
  FilledText fill(const std::string& text, std::int64_t top_k = 5) const;
  std::vector<FilledText> fill(std::span<const std::string> texts, std::int64_t top_k,
                               const TaskOptions& options = {}) const;

  /// The `top_k` labels (0: all) with the highest scores, highest first.
  std::vector<Label> classify(const std::string& text, std::int64_t top_k = 0) const;
  std::vector<Label> classify(const TextPair& text, std::int64_t top_k = 0) const;
  std::vector<std::vector<Label>> classify(std::span<const TextPair> texts, std::int64_t top_k,
                                           const TaskOptions& options = {}) const;
  /// The same for an image file: PNG, JPEG, WebP, GIF or PNM (heed/image/image.h), preprocessed as the
  /// model's preprocessor_config.json says.
  std::vector<Label> classify_image(const std::string& file, std::int64_t top_k = 0) const;
  std::vector<std::vector<Label>> classify_images(std::span<const std::string> files, std::int64_t top_k,
                                                  const TaskOptions& options = {}) const;

  /// The same for a sound file (heed/sound/sound.h), with a model that labels sounds (AST).
  std::vector<Label> classify_sound(const std::string& file, std::int64_t top_k = 0) const;
  std::vector<std::vector<Label>> classify_sounds(std::span<const std::string> files, std::int64_t top_k,
                                                  const TaskOptions& options = {}) const;

  /// The same with labels that the caller gives, for a model of texts and images (CLIP, SigLIP): texts such
  /// as "a photo of a cat".
  std::vector<Label> classify_image(const std::string& file, std::span<const std::string> labels,
                                    std::int64_t top_k = 0) const;
  std::vector<std::vector<Label>> classify_images(std::span<const std::string> files,
                                                  std::span<const std::string> labels, std::int64_t top_k,
                                                  const TaskOptions& options = {}) const;
  /// The transcript of a sound file: WAV, FLAC, Ogg or MP3 of any length (heed/sound/sound.h). The rules and
  /// options are those of heed/tasks/transcribe.h.
  Transcript transcribe(const std::string& file, const TranscribeOptions& options = {}) const;

  /// The text that an encoder-decoder generates for an image file: a caption, or the text in the image. The
  /// settings are generation(); without a length, the caption may have as many tokens as the model has
  /// positions.
  std::string caption(const std::string& file) const;
  /// With every option, as generate(): caption_images() (heed/tasks/caption.h).
  std::vector<std::vector<Caption>> caption(std::span<const std::string> files,
                                            const CaptionOptions& options) const;

  /// The entities of a text (heed/tasks/tag.h).
  std::vector<TaggedText> tag(const std::string& text) const;
  std::vector<std::vector<TaggedText>> tag(std::span<const std::string> texts,
                                           const TagOptions& options) const;

  /// The part of a context that best answers a question (heed/tasks/answer.h).
  Answer answer(const std::string& question, const std::string& context) const;
  std::vector<std::vector<Answer>> answer(std::span<const Question> questions,
                                          const AnswerOptions& options) const;

  /// One vector for each text, f32 [texts, D], by the model's modules.json (heed/tasks/embed.h). similarity()
  /// and nearest() compare them.
  Tensor embed(std::span<const std::string> texts, const TaskOptions& options = {}) const;
  Tensor embed(std::initializer_list<std::string> texts) const;
  /// The same for image files. Those of CLIP and SigLIP compare with the vectors of texts.
  Tensor embed_images(std::span<const std::string> files, const TaskOptions& options = {}) const;

  /// The attention weights of a text, of chosen layers and heads. Throws Error if one does not exist.
  TextAttention attention(const std::string& text, const AttentionChoice& options = {}) const;
  /// The model's inputs for a text, and the labels of their positions (heed/open/subject.h). An
  /// encoder-decoder reads the target, else its own translation.
  Subject subject(const std::string& text, const std::optional<std::string>& target = {}) const;
  /// Model::forward() of a text: `taps` read and replace values on the way (heed/nn/tap.h). An
  /// encoder-decoder also needs the `target` that its decoder reads, else its own translation. Throws Error
  /// if a pattern of `taps` matches nothing.
  TensorMap forward(const std::string& text, Taps& taps, const std::optional<std::string>& target = {}) const;

  /// The parts, for the functions of the layers below: each is read when it is first asked for, once for all
  /// copies. Throws Error if its files are missing or malformed.
  const Model& model() const;
  const DecoderModel& decoder() const;                 ///< throws Error for other models
  const EncoderDecoderModel& encoder_decoder() const;  ///< throws Error for other models
  const EncoderModel& encoder() const;                 ///< throws Error for other models
  const DualEncoderModel& dual_encoder() const;        ///< throws Error for other models
  /// The model for functions that change it, such as Model::quantize(). The change affects all copies. No
  /// other thread may use the model meanwhile.
  Model& changeable_model() const;
  const Tokenizer& tokenizer() const;
  bool has_tokenizer() const;  ///< whether tokenizer() succeeds
  /// Another tokenizer of the model, for who changes its languages from text to text.
  std::unique_ptr<Tokenizer> own_tokenizer() const;
  /// The chat templates (heed/chat/model_chat.h). Throws Error if there are none.
  const ModelChat& chat_templates() const;
  bool has_chat_template() const;
  /// How texts become vectors (heed/tasks/embed.h).
  const EmbeddingRecipe& recipe() const;
  /// The preprocessing of images or sounds, as preprocessor_config.json says.
  const ImageProcessor& image_processor() const;
  const SoundProcessor& sound_processor() const;
  const tasks::FileProcessor& file_processor() const;
  /// The transcriber of a speech model (heed/tasks/transcribe.h).
  const Transcriber& transcriber() const;
  /// Throws Error if a file that the weights are mapped from was written to or cut since it was opened: what
  /// is computed is then another model's, or the process ends with SIGBUS. Members that compute begin with
  /// it; a program that computes with model() for long calls it before each piece of work (it takes
  /// microseconds).
  void require_unchanged_files() const;
  /// Settings in the files that heed ignores, one per line: `DIR/config.json: a, b are not supported and
  /// ignored`.
  std::vector<std::string> warnings() const;

 private:
  struct State;
  explicit LoadedModel(std::shared_ptr<const State> state);
  friend LoadedModel open_model(const std::string& name, const LoadOptions& options);
  friend LoadedModel open_tokenizer(const std::string& name);
  /// Throws Error unless the model can do this and its files are as they were.
  void require(Task task) const;

  std::shared_ptr<const State> state_;
  std::shared_ptr<const Tokenizer> tokenizer_;   // with other languages than the shared one
  std::optional<GenerationOptions> generation_;  // where they are not those of the files
};

/// Opens a model by its directory or name, or by that of a LoRA adapter, whose base is opened with it.
/// Names are looked up in $HEED_MODELS, among the installed models and in the Hugging Face cache
/// (heed/models/find_model.h). Throws Error if nothing is found, or if files are missing or malformed.
LoadedModel load(const std::string& name, const LoadOptions& options = {});

/// The same, but the weights are read only when they are first needed, for callers that may need only the
/// tokenizer.
LoadedModel open_model(const std::string& name, const LoadOptions& options = {});

/// The same of a model that may be a tokenizer's file alone: tokenizer.json, vocab.txt, a SentencePiece
/// model.
LoadedModel open_tokenizer(const std::string& name);

/// Where the model or the adapter of that name is, for what reads directories itself: training, averages.
std::string model_path(const std::string& name);

}  // namespace heed
