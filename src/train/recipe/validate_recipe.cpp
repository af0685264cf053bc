// Checks that the values of a recipe agree with each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "heed/train/recipe.h"
#include "train/recipe/recipe_fields.h"

namespace heed {
namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw Error("recipe: " + message);
}

bool translates(const Recipe& r) {
  return r.task.kind == "translation" || r.task.kind == "reverse" || r.task.kind == "seq2seq";
}

// The formats, tokenizers and losses of a task, the default first.
struct TaskChoices {
  std::vector<std::string> formats, tokenizers;
  const char* family;
  std::vector<std::string> losses = {};
};

TaskChoices choices_of(const Recipe& recipe) {
  static const std::vector<std::string> kEncoderTokenizers{"wordpiece", "word", "byte_bpe"};
  const std::string& kind = recipe.task.kind;
  if (kind == "seq2seq") return {{"jsonl", "tsv", "csv", "lines"}, {"unigram", "bpe", "byte_bpe"}, "t5"};
  if (kind == "denoising")
    return {
        {"text", "jsonl"}, {"unigram", "bpe", "byte_bpe"}, recipe.task.objective == "bart" ? "bart" : "t5"};
  if (kind == "causal-lm") return {{"text", "jsonl", "chat"}, {"byte_bpe", "character"}, "gpt2"};
  if (kind == "preference")
    return {{"chat"}, {"byte_bpe", "character"}, "gpt2", {"dpo", "ipo", "orpo", "simpo"}};
  if (kind == "masked-lm") return {{"text", "jsonl"}, kEncoderTokenizers, "bert"};
  if (kind == "classification") return {{"tsv", "csv", "jsonl", "labelled"}, kEncoderTokenizers, "bert"};
  if (kind == "tagging") return {{"conll"}, kEncoderTokenizers, "bert"};
  if (kind == "embedding")
    return {{"jsonl", "tsv", "csv"}, kEncoderTokenizers, "bert", {"multiple-negatives", "cosent", "cosine"}};
  if (kind == "reranking")
    return {{"jsonl", "tsv", "csv"}, kEncoderTokenizers, "bert", {"bce", "list-net", "lambda"}};
  if (kind == "image-classification") return {{"folders", "tsv", "csv"}, {""}, "vit"};
  if (kind == "transcription") return {{"folders", "tsv", "csv", "jsonl"}, {""}, "wav2vec2"};
  if (kind == "answers") return {{"squad"}, kEncoderTokenizers, "bert"};
  return {{"tsv", "csv", "lines", "jsonl"}, {"unigram", "bpe"}, "marian"};
}

void require_choice(const char* key, const std::string& value, const std::vector<std::string>& choices,
                    const std::string& kind) {
  require(std::find(choices.begin(), choices.end(), value) != choices.end(),
          fmt::format("{}: expected {} for the task {}, got {}", key, alternatives(choices), kind, value));
}

void validate_columns(const DataOptions& d) {
  const auto differ = [](const char* key, std::int64_t column, const char* other, std::int64_t taken) {
    require(column != taken, fmt::format("data.{}: expected another column than data.{}, got {} for both",
                                         key, other, column));
  };
  differ("label_column", d.label_column, "text_column", d.text_column);
  differ("pair_column", d.pair_column, "text_column", d.text_column);
  differ("pair_column", d.pair_column, "label_column", d.label_column);
  differ("weight_column", d.weight_column, "text_column", d.text_column);
  differ("weight_column", d.weight_column, "label_column", d.label_column);
}

void validate_task_data(const Recipe& r) {
  require(!r.data.train.empty(), "data.train: not set (give the training data)");
  const bool images = r.task.kind == "image-classification";
  if ((images || r.task.kind == "classification") && (r.data.format == "tsv" || r.data.format == "csv"))
    validate_columns(r.data);
  const bool speech = r.task.kind == "transcription";
  require(!speech || (r.data.format != "tsv" && r.data.format != "csv") ||
              r.data.source_column != r.data.target_column,
          fmt::format("data.target_column: expected another column than data.source_column, got {} for both",
                      r.data.target_column));
  for (const auto& [key, where] : r.given)
    require(
        !speech || !key.starts_with("tokenizer.") || key == "tokenizer.from",
        fmt::format("{}: the task transcription trains no tokenizer (tokenizer.from takes another)", key));
  for (const auto& [key, where] : r.given)
    require(!images || !key.starts_with("tokenizer."),
            fmt::format("{}: the task image-classification has no tokenizer", key));
  require(
      r.data.folds == 0 || r.data.fold < r.data.folds,
      fmt::format("data.fold: expected a number below data.folds, {}, got {}", r.data.folds, r.data.fold));
  require(r.data.train_source.empty() && r.data.train_target.empty(),
          "data.train_source, data.train_target: only the tasks seq2seq and translation have sources and "
          "targets");
}

// Keys that only some tasks have.
void validate_encoder_decoder(const Recipe& r) {
  const bool denoises = r.task.kind == "denoising";
  require(denoises || r.task.objective.empty(), "task.objective: only the task denoising has one");
  require(!denoises || r.tokenizer.special_tokens != "marian",
          "tokenizer.special_tokens: expected t5 or bart for the task denoising, got marian (it has neither "
          "sentinels nor a mask token)");
  require(r.tokenizer.special_tokens != "marian" || r.tokenizer.type != "byte_bpe",
          "tokenizer.type: expected unigram or bpe with tokenizer.special_tokens = \"marian\", got byte_bpe");
  require(translates(r) || (r.data.prefix.empty() && r.data.max_source == 0 && r.data.max_target == 0),
          "data.prefix, data.max_source, data.max_target: only the tasks seq2seq and translation take them");
}

void validate_data(const Recipe& r) {
  const TaskChoices choices = choices_of(r);
  require_choice("data.format", r.data.format, choices.formats, r.task.kind);
  require_choice("tokenizer.type", r.tokenizer.type, choices.tokenizers, r.task.kind);
  if (!choices.losses.empty()) require_choice("task.loss", r.task.loss, choices.losses, r.task.kind);
  validate_encoder_decoder(r);
  if (!translates(r)) return validate_task_data(r);
  if (r.task.kind == "reverse") {
    require(r.task.min_length <= r.task.max_length,
            fmt::format("task.max_length: expected at least task.min_length, {}, got {}", r.task.min_length,
                        r.task.max_length));
    return;
  }
  const bool one_file = r.data.format != "lines";
  require(!one_file || !r.data.train.empty(),
          "data.train: not set (give a file of source and target columns)");
  require(one_file || (!r.data.train_source.empty() && !r.data.train_target.empty()),
          "data.train_source, data.train_target: expected both files (data.format is \"lines\"), got fewer");
  require(
      !one_file || (r.data.train_source.empty() && r.data.train_target.empty() && r.data.dev_source.empty() &&
                    r.data.dev_target.empty() && r.data.test_source.empty() && r.data.test_target.empty()),
      "data: expected data.train, data.dev and data.test, got *_source or *_target (set data.format = "
      "\"lines\" for two files)");
  require(
      one_file || (r.data.train.empty() && r.data.dev.empty() && r.data.test.empty()),
      "data: expected *_source and *_target files (data.format is \"lines\"), got data.train, data.dev or "
      "data.test");
  require(r.data.dev_source.empty() == r.data.dev_target.empty(),
          "data.dev_source, data.dev_target: expected both files or none, got one");
  require(r.data.test_source.empty() == r.data.test_target.empty(),
          "data.test_source, data.test_target: expected both files or none, got one");
  require(!one_file || r.data.source_column != r.data.target_column,
          fmt::format("data.target_column: expected another column than data.source_column, got {} for both",
                      r.data.target_column));
}

void validate_lora(const Recipe& r) {
  const Recipe none;
  const bool given = r.lora.alpha != none.lora.alpha || r.lora.rslora || r.lora.dropout > 0 ||
                     !r.lora.targets.empty() || !r.lora.train.empty();
  require(r.lora.rank > 0 || !given, "lora.rank: not set (give the rank of the adapter, e.g. 8)");
  if (r.lora.rank == 0) return;
  require(!r.lora.targets.empty(),
          "lora.targets: not set (give the names of the linear maps to adapt, e.g. [\"query\", \"value\"], "
          "or \"all-linear\")");
  require(r.task.freeze.empty(),
          "task.freeze: expected none beside [lora], which trains the adapter and lora.train only");
}

void validate_preference(const Recipe& r) {
  if (r.task.kind != "preference") return;
  const auto of_losses = [&](const char* key, const std::vector<std::string>& losses) {
    require(!r.given.contains(key) || std::find(losses.begin(), losses.end(), r.task.loss) != losses.end(),
            fmt::format("{}: expected task.loss = {}, got {}", key, alternatives(losses), r.task.loss));
  };
  of_losses("task.beta", {"dpo", "ipo", "simpo"});
  of_losses("task.gamma", {"simpo"});
  of_losses("task.lambda", {"orpo"});
  of_losses("task.reference", {"dpo", "ipo"});
  require(r.train.label_smoothing == 0 || r.task.loss == "dpo" || r.task.loss == "simpo",
          fmt::format("train.label_smoothing: expected 0 with task.loss = {}, got {}", r.task.loss,
                      r.train.label_smoothing));
  require(r.data.longer != "split",
          "data.longer: expected truncate or skip for the task preference, got split");
  for (const auto& [key, where] : r.given)
    require(!key.starts_with("model.") && !key.starts_with("tokenizer."),
            fmt::format("{}: the task preference trains a model that there is (--init)", key));
}

// Throws Error for settings that others make void.
void validate_void_settings(const Recipe& r) {
  const DataOptions& d = r.data;
  const auto exclude = [](bool void_setting, const char* keys, const char* why) {
    require(!void_setting, fmt::format("{}: expected one of them, got both ({})", keys, why));
  };
  const bool dev = !d.dev.empty() || !d.dev_source.empty(), test = !d.test.empty() || !d.test_source.empty();
  exclude(dev && d.dev_size > 0, "data.dev, data.dev_size",
          "the second holds out training data as the first");
  exclude(dev && d.dev_share > 0, "data.dev, data.dev_share",
          "the second holds out training data as the first");
  exclude(test && d.test_size > 0, "data.test, data.test_size",
          "the second holds out training data as the first");
  exclude(d.folds > 0 && (test || d.test_size > 0), "data.folds, data.test or data.test_size",
          "a fold is the test set");
  for (const char* key :
       {"tokenizer.type", "tokenizer.special_tokens", "tokenizer.vocab_size", "tokenizer.character_coverage",
        "tokenizer.byte_fallback", "tokenizer.normalization"})
    require(r.tokenizer.from.empty() || !r.given.contains(key),
            fmt::format("{}: expected none beside tokenizer.from, whose tokenizer is taken as it is", key));
  require(r.train.schedule != "constant" || r.train.min_lr == 0,
          "train.min_lr: expected another train.schedule than constant, which stays at train.lr");
  require(r.train.weights == "f32" || r.train.precision == "bf16",
          "train.weights: expected train.precision = \"bf16\" beside bf16, got f32 (whose products would see "
          "rounded weights)");
  const bool one_label = r.task.problem == "single-label";
  require(one_label || !r.task.class_weights.given(),
          fmt::format("task.class_weights: expected task.problem = \"single-label\", got \"{}\" "
                      "(data.weight_column and data.weight_key weigh examples)",
                      r.task.problem));
  require(one_label || r.train.label_smoothing == 0,
          fmt::format("train.label_smoothing: expected 0 for task.problem = \"{}\", whose targets are no "
                      "distribution over labels, got {}",
                      r.task.problem, r.train.label_smoothing));
  exclude(r.task.class_weights.given() && r.train.label_smoothing > 0,
          "task.class_weights, train.label_smoothing",
          "the label that a loss is smoothed to has another weight");
  require(!r.task.cross_documents || (r.data.format != "chat" && r.task.answers_after.empty()),
          "task.cross_documents: expected false where answers are learned (data.format = \"chat\", "
          "task.answers_after), got true");
  require(!r.task.cross_documents || r.data.longer.empty(),
          "data.longer: expected task.cross_documents = false, got true, with which documents are no rows");
  require(r.task.objective != "spans" || !r.given.contains("task.permute_sentences"),
          "task.permute_sentences: expected task.objective = \"bart\", got spans");
}

// Settings of losses that compare texts.
void validate_comparison(const Recipe& r) {
  const auto only_for = [&](const char* key, const char* loss, bool is_set) {
    require(!is_set || r.task.loss == loss,
            fmt::format("{}: expected task.loss = \"{}\" beside it, got {}", key, loss, r.task.loss));
  };
  only_for("task.symmetric", "multiple-negatives", r.task.symmetric);
  only_for("train.label_smoothing", "multiple-negatives", r.train.label_smoothing > 0);
  require(r.task.loss != "cosine" || !r.given.contains("task.scale"),
          "task.scale: expected a loss that scales cosines, got cosine");
}

bool has_development_set(const Recipe& r) {
  return r.task.kind == "reverse" || r.data.dev_size > 0 || r.data.dev_share > 0 || !r.data.dev.empty() ||
         !r.data.dev_source.empty();
}

void validate_marian(const Recipe& r) {
  require(r.model.d_model % 2 == 0,
          fmt::format("model.d_model: expected an even number, got {}", r.model.d_model));
  require(r.model.d_model % r.model.heads == 0,
          fmt::format("model.heads: expected a divisor of model.d_model, {}, got {}", r.model.d_model,
                      r.model.heads));
  require(r.data.max_tokens <= r.model.max_positions,
          fmt::format("data.max_tokens: expected at most model.max_positions, {}, got {}",
                      r.model.max_positions, r.data.max_tokens));
}

// Of an encoder's byte_bpe, those of BART, which are RoBERTa's; empty: those of the tokenizer's type.
std::string default_special_tokens(const Recipe& r) {
  if (r.task.kind == "causal-lm" || r.task.kind == "image-classification" || r.task.kind == "transcription" ||
      r.task.kind == "preference")
    return "";
  if (r.task.kind != "denoising" && !translates(r)) return r.tokenizer.type == "byte_bpe" ? "bart" : "";
  if ((r.task.kind != "seq2seq" && r.task.kind != "denoising") || r.model.family == "marian") return "marian";
  return r.model.family == "bart" || r.task.objective == "bart" ? "bart" : "t5";
}

// Of the letters, each also after a space, the space, and Marian's three special tokens.
std::int64_t most_pieces_of_reversals(const Recipe::Task& task) { return 2 * task.symbols + 4; }

}  // namespace

Recipe with_defaults(Recipe recipe) {
  const bool denoises = recipe.task.kind == "denoising", pairs = recipe.task.kind == "seq2seq";
  if (denoises && recipe.task.objective.empty())
    recipe.task.objective = recipe.model.family == "bart" ? "bart" : "spans";
  if (denoises && recipe.task.noise_density == 0)
    recipe.task.noise_density = recipe.task.objective == "bart" ? 0.3 : 0.15;
  const TaskChoices choices = choices_of(recipe);
  if (recipe.data.format.empty()) recipe.data.format = choices.formats.front();
  if (recipe.task.loss.empty() && !choices.losses.empty()) recipe.task.loss = choices.losses.front();
  if (recipe.tokenizer.type.empty()) recipe.tokenizer.type = choices.tokenizers.front();
  if (recipe.model.family.empty()) recipe.model.family = choices.family;
  if (recipe.tokenizer.special_tokens.empty())
    recipe.tokenizer.special_tokens = default_special_tokens(recipe);
  if (recipe.task.kind == "reverse" && recipe.tokenizer.vocab_size == Recipe::Tokenizer().vocab_size)
    recipe.tokenizer.vocab_size = most_pieces_of_reversals(recipe.task);
  if (recipe.task.kind == "transcription") {
    if (!recipe.given.contains("data.source_key")) recipe.data.source_key = "audio";
    if (!recipe.given.contains("data.target_key"))
      recipe.data.target_key = recipe.data.format == "folders" ? "transcription" : "text";
  }
  if (recipe.data.format == "jsonl" || recipe.data.format == "chat") recipe.data.documents = "line";
  if (recipe.task.kind == "causal-lm") {
    const bool answers = recipe.data.format == "chat" || !recipe.task.answers_after.empty();
    if (answers && !recipe.given.contains("task.cross_documents")) recipe.task.cross_documents = false;
    if (recipe.data.longer.empty() && !recipe.task.cross_documents)
      recipe.data.longer = answers && recipe.data.documents != "file" ? "truncate" : "split";
  }
  if (recipe.task.kind == "preference") {
    recipe.task.cross_documents = false;
    if (recipe.task.beta == 0) recipe.task.beta = recipe.task.loss == "simpo" ? 2 : 0.1;
    if (recipe.data.longer.empty()) recipe.data.longer = "truncate";
  }
  if (recipe.data.target_list.empty()) recipe.data.target_list = pairs ? "references" : "sentences";
  if (recipe.eval.scores.empty()) recipe.eval.scores = pairs ? "rouge" : "bleu";
  return recipe;
}

void validate_recipe(const Recipe& given) {
  const Recipe r = with_defaults(given);
  refuse_unused_keys(r);
  validate_data(r);
  validate_void_settings(r);
  if (r.model.family == "marian") validate_marian(r);
  validate_lora(r);
  if (r.task.kind == "embedding" || r.task.kind == "reranking") validate_comparison(r);
  validate_preference(r);
  require(r.train.steps > 0 || r.train.epochs > 0,
          "train.steps: no length of the run (set train.steps or train.epochs)");
  require(r.train.warmup < 1 || r.train.warmup == std::floor(r.train.warmup),
          fmt::format("train.warmup: expected a whole number of steps, or a share of the run below 1, got {}",
                      r.train.warmup));
  require(r.train.min_lr <= r.train.lr,
          fmt::format("train.min_lr: expected at most train.lr, {}, got {}", r.train.lr, r.train.min_lr));
  const bool evaluates = !r.eval.every.never() && has_development_set(r);
  require(r.eval.every.never() || has_development_set(r) || !r.given.contains("eval.every"),
          "eval.every: no development set to evaluate on (set data.dev_size or data.dev, or "
          "eval.every = 0)");
  require(
      !translates(r) || r.eval.metric == "loss" || (r.eval.bleu && evaluates),
      fmt::format("eval.metric: expected eval.bleu = true beside \"{}\", got evaluations that do not decode",
                  r.eval.metric));
  require(r.eval.patience == 0 || evaluates,
          has_development_set(r)
              ? "eval.patience: expected eval.every above 0, got 0"
              : "eval.patience: no development set to evaluate on (set data.dev_size or data.dev, or "
                "eval.patience = 0)");
}

}  // namespace heed
