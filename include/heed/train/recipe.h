// Recipe: all settings of a training run, read from a TOML file. docs/recipes.md lists every key.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heed/data/data_options.h"
#include "heed/export.h"
#include "heed/models/adapter.h"

namespace HEED_API heed {

/// How much the loss of an example weighs by its label.
struct ClassWeights {
  bool balanced = false;                   ///< each label of the training set weighs the same in all
  std::map<std::string, double> labels{};  ///< or these, and others 1

  bool given() const { return balanced || !labels.empty(); }
};

/// How often something is done: after so many steps, or passes over the training data; never if both are 0.
struct Interval {
  Interval(std::int64_t every_steps = 0) : steps(every_steps) {}
  std::int64_t steps = 0;
  double epochs = 0;  ///< in the place of `steps`; 0.5: twice in each pass

  bool never() const { return steps == 0 && epochs == 0; }
};

struct Recipe {
  struct Task {
    /// translation, seq2seq: pairs from files. reverse: generated pairs. causal-lm, masked-lm, denoising:
    /// texts. classification, tagging, answers: labeled texts. embedding, reranking: texts to compare.
    /// image-classification: labeled images. transcription: recordings and what is said in
    /// them. preference: pairs of answers.
    std::string kind = "translation";
    std::int64_t symbols = 16;       ///< reverse: size of the alphabet
    std::int64_t min_length = 3;     ///< reverse: minimum number of symbols per sequence
    std::int64_t max_length = 12;    ///< reverse: maximum number
    std::int64_t pairs = 20000;      ///< reverse: number of training pairs
    std::int64_t context = 256;      ///< causal-lm, masked-lm: tokens of a row; preference: of a sequence
    bool cross_documents = true;     ///< causal-lm: tokens attend to earlier documents of their row
    std::string answers_after{};     ///< causal-lm: learn only what follows this text; empty: all
    double mask_probability = 0.15;  ///< masked-lm: share of the tokens that are predicted
    double token_dropout = 0;  ///< classification, tagging: share of a training text's tokens that are hidden
    bool whole_words = false;  ///< masked-lm: mask all tokens of a word or none
    std::string problem = "single-label";  ///< classification: or multi-label, regression
    ClassWeights class_weights{};          ///< single labels of texts, images and words
    std::int64_t stride = 128;             ///< answers: overlap of the windows of a long context, in tokens
    std::string objective{};               ///< denoising: spans (T5's) or bart; empty: spans
    double noise_density = 0;       ///< denoising: share of the tokens hidden; 0: 0.15 (spans), 0.3 (bart)
    double span_length = 3;         ///< denoising: mean length of a hidden span
    bool permute_sentences = true;  ///< denoising, bart: sentences in random order
    std::string language{};  ///< transcription with a multilingual Whisper: of the speech; empty: the model's
    bool translate =
        false;           ///< transcription with a multilingual Whisper: the texts are English translations
    std::string loss{};  ///< of the tasks that have several; empty: the first of the task's
    double scale = 20;   ///< embedding: factor of cosines, 1 / temperature
    bool symmetric = false;                  ///< embedding: positives also find their anchors
    std::vector<std::int64_t> matryoshka{};  ///< embedding: the first numbers of vectors that are trained
    std::string query_prompt{};              ///< embedding: before anchors; empty: the model's prompt "query"
    std::string document_prompt{};           ///< embedding: before positives and negatives; empty: "document"
    double beta = 0;                         ///< dpo, ipo, simpo: 0: 0.1, of simpo 2
    double gamma = 1;     ///< simpo: the margin of the rewards, beta times what the paper calls gamma / beta
    double lambda = 0.1;  ///< orpo: weight of the odds ratio
    std::string reference{};  ///< dpo, ipo: a model's folder or name; empty: the model before training
    std::string freeze{};  ///< parameters that are not trained: patterns separated by spaces, * for any text
  } task;

  DataOptions data;

  /// image-classification: random changes to the training images.
  struct Augment {
    double crop_scale = 1;          ///< below 1: a part of at least this share of the area, resized
    std::int64_t crop_padding = 0;  ///< pixels around the image, in which it is moved
    double flip = 0;                ///< probability that left and right are exchanged
    double jitter = 0;              ///< of brightness, contrast and saturation
    double mixup = 0;               ///< alpha of the distribution of the shares of two mixed images; 0: none
  } augment;

  struct Tokenizer {
    std::filesystem::path from{};  ///< a model directory whose tokenizer is used; empty: train one
    std::string type{};  ///< unigram, bpe, byte_bpe, wordpiece, word or character; empty: the task's default
    /// unigram, bpe, byte_bpe of encoder-decoders: marian, t5 or bart; empty: by family and objective
    std::string special_tokens{};
    std::int64_t vocab_size = 8000;
    double character_coverage = 1.0;
    bool byte_fallback = false;
    std::string normalization = "nmt_nfkc";
  } tokenizer;

  /// Families other than marian take the keys of their config.json, in `settings`.
  struct Model {
    std::string family{};                           ///< empty: the task's default
    std::map<std::string, std::string> settings{};  ///< keys of config.json and their values as JSON
    /// The same for keys that are also fields below, which are marian's: d_model, dropout, ...
    std::map<std::string, std::string> sizes{};
    std::int64_t d_model = 256;
    std::int64_t encoder_layers = 4;
    std::int64_t decoder_layers = 4;
    std::int64_t heads = 4;
    std::int64_t ffn = 1024;
    std::string activation = "relu";
    double dropout = 0.1;           ///< on embeddings and the outputs of sublayers
    double attention_dropout = 0;   ///< on attention weights
    double activation_dropout = 0;  ///< after the activation of the feed-forward block
    std::int64_t max_positions = 512;
  } model;

  /// Trains an adapter of the model of --init instead of its weights; rank 0: no adapter.
  LoraOptions lora{.rank = 0};

  struct Train {
    double lr = 5e-4;
    double min_lr = 0;
    std::string schedule = "inverse_sqrt";
    double warmup = 0.1;      ///< steps; below 1: that share of the run
    std::int64_t steps = 0;   ///< 0: given by epochs
    std::int64_t epochs = 0;  ///< passes over the data, converted to steps at the start; 0: given by steps
    std::int64_t batch_tokens = 4096;  ///< per micro-batch: rows * longest side, including padding
    std::int64_t batch_rows = 64;      ///< embedding: rows whose texts are compared with each other
    std::int64_t accumulate = 1;       ///< micro-batches per step
    double label_smoothing = 0;
    double layer_decay = 1;  ///< each layer below the head has a learning rate this many times smaller
    double clip_norm = 0;    ///< 0: no clipping
    double weight_decay = 0;
    std::array<double, 2> betas{0.9, 0.98};
    double eps = 1e-9;
    std::string precision = "f32";  ///< of matrix products: f32, or bf16 with sums and weights in f32
    std::string weights = "f32";    ///< stored matrices: f32, or bf16 beside f32 masters of the optimizer
    bool shard_optimizer = false;   ///< each process keeps a part of the optimizer's state (ZeRO stage 1)
    bool gradient_checkpointing = false;  ///< layers are computed again in the backward pass: less memory
    std::int64_t seed = 1;                ///< for initialization, dropout and the order of the data
  } train;

  struct Eval {
    Interval every{500};
    bool bleu = true;      ///< also decode the development set, for its scores
    std::string scores{};  ///< of decoded texts: bleu (and exact matches) or rouge; empty: the task's
    std::int64_t beams = 1;
    std::int64_t max_pairs =
        500;  ///< sources decoded per evaluation, selected at random; 0: all. The loss always uses all
    std::int64_t max_new_tokens = 0;  ///< 0: twice the longest source plus 10
    std::string metric = "loss";      ///< loss or one of the task's scores: decides which step is best
    std::int64_t patience = 0;  ///< end the run after this many evaluations without improvement; 0: no limit
  } eval;

  struct Checkpoint {
    std::int64_t every = 500;         ///< steps
    std::int64_t keep = 2;            ///< newest ones to keep, besides those of the final model
    std::int64_t average = 1;         ///< number of checkpoints averaged for the final model
    std::string average_of = "best";  ///< best (by eval.metric) or last
    std::string dtype = "f32";        ///< dtype of the final model's file: f32, bf16 or f16
  } checkpoint;

  /// The keys that a file or an override sets, and where. A task rejects keys that it does not use.
  std::map<std::string, std::string> given{};
};

/// Where, in Recipe::given, an override sets a key.
inline constexpr const char* kRecipeOverride = "recipe";

/// Reads a recipe. Relative paths in it start at the recipe's folder, and `${NAME}` in a path is replaced by
/// that environment variable. Throws Error `FILE:LINE: KEY: expected ..., got ...` if the file is not TOML,
/// for an unknown key or section (naming the nearest known one), for a value of the wrong type or out of
/// range, and for an unset variable. Does not check values against each other; call validate_recipe after
/// applying overrides. `following` are assignments that apply_override() gets afterward: values of their keys
/// are not read from the file, so that they need no variable.
Recipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& following = {});

/// Sets one value from `section.key=value`, e.g. `train.lr=3e-4` or `data.dev=dev.tsv` (text needs no
/// quotes). Relative paths start at the current folder. Throws Error as load_recipe does.
void apply_override(Recipe& recipe, std::string_view assignment);

/// Returns the recipe with the defaults of its task for missing values: data.format, tokenizer.type,
/// tokenizer.special_tokens, model.family, task.objective, eval.scores and the like.
Recipe with_defaults(Recipe recipe);

/// Throws Error if values contradict each other, a required one is missing, or the task does not use a key
/// that is given.
void validate_recipe(const Recipe& recipe);

/// Returns every full key (`train.lr`) with its value as text.
std::map<std::string, std::string> recipe_values(const Recipe& recipe);

/// Returns every key in Markdown tables, one per section: its default, the tasks and data formats that use
/// it, and its meaning.
std::string recipe_reference();

/// Compares a run's recipe, stored as recipe_values, with `recipe`. Returns the keys that differ although a
/// resumed run may not change them. May change: the length of the run, eval.*, checkpoint.*, and paths (the
/// content of the files is compared instead).
std::vector<std::string> fixed_differences(const std::map<std::string, std::string>& kept,
                                           const Recipe& recipe);

}  // namespace heed
