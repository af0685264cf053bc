// All keys of a recipe, in the order of the documentation.
#include "train/recipe/recipe_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/edit_distance.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr double kMany = 1e15;

using Tasks = std::vector<std::string>;
using Formats = std::vector<std::string>;
const Tasks kPairFiles{"translation", "seq2seq"}, kPairs{"translation", "reverse", "seq2seq"},
    kTexts{"causal-lm", "masked-lm", "denoising"}, kLabeled{"classification", "tagging", "answers"},
    kClassification{"classification"}, kDenoising{"denoising"}, kImages{"image-classification"},
    kSpeech{"transcription"}, kEmbedding{"embedding"}, kCompared{"embedding", "reranking"},
    kPreference{"preference"}, kAll{};
const Formats kTables{"tsv", "csv"}, kJson{"jsonl"}, kJsonOrFolders{"jsonl", "folders"};

template <class... Lists>
Tasks tasks_of(const Lists&... lists) {
  Tasks all;
  (all.insert(all.end(), lists.begin(), lists.end()), ...);
  return all;
}

class FieldList {
 public:
  void section(std::string name, bool may_change = false) {
    section_ = std::move(name) + ".";
    may_change_ = may_change;
    used_by({});
  }
  // The tasks, and of theirs the values of data.format, that use the following keys of the section.
  void used_by(Tasks tasks, Formats formats = {}) {
    tasks_ = std::move(tasks);
    formats_ = std::move(formats);
  }
  void number(const char* name, const char* doc, RecipeField::Target target, double min, double max) {
    add(name, doc, target).min = min;
    fields_.back().max = max;
  }
  void count(const char* name, const char* doc, std::int64_t& target, double min = 0) {
    number(name, doc, &target, min, kMany);
  }
  void length(const char* name, const char* doc, std::int64_t& target) {
    count(name, doc, target);
    fields_.back().may_change = true;
  }
  // A flag that changes no number.
  void exact(const char* name, const char* doc, bool& target) { add(name, doc, &target).may_change = true; }
  RecipeField& choice(const char* name, const char* doc, std::string& target,
                      std::vector<std::string> choices) {
    RecipeField& field = add(name, doc, &target);
    field.choices = std::move(choices);
    return field;
  }
  void text(const char* name, const char* doc, std::string& target) { add(name, doc, &target); }
  void flag(const char* name, const char* doc, bool& target) { add(name, doc, &target); }
  void path(const char* name, const char* doc, std::filesystem::path& target) {
    add(name, doc, &target).may_change = true;
  }
  std::vector<RecipeField> take() { return std::move(fields_); }

 private:
  RecipeField& add(const char* name, const char* doc, RecipeField::Target target) {
    return fields_.emplace_back(
        RecipeField{section_ + name, doc, target, 0, 0, {}, may_change_, tasks_, formats_});
  }
  std::string section_;
  bool may_change_ = false;
  Tasks tasks_;
  Formats formats_;
  std::vector<RecipeField> fields_;
};

void list_task(FieldList& list, Recipe& r) {
  list.section("task");
  list.choice("kind", "what is trained; see [tasks](training-data.md)", r.task.kind,
              {"translation", "reverse", "seq2seq", "causal-lm", "masked-lm", "denoising", "classification",
               "tagging", "answers", "embedding", "reranking", "image-classification", "transcription",
               "preference"});
  list.used_by({"reverse"});
  list.number("symbols", "letters in the alphabet", &r.task.symbols, 2, 26);
  list.count("min_length", "fewest letters in a sequence", r.task.min_length, 1);
  list.count("max_length", "most letters in a sequence", r.task.max_length, 1);
  list.count("pairs", "number of training pairs", r.task.pairs, 1);
  list.used_by(tasks_of(kTexts, kPreference));
  list.number(
      "context",
      "tokens of a row; of `denoising`: of the longer side; of `preference`: of a prompt with its answer",
      &r.task.context, 2, 1e7);
  list.used_by({"causal-lm"});
  list.flag("cross_documents",
            "false fills rows with whole documents, which are kept apart; so it is for chats and with "
            "`answers_after`",
            r.task.cross_documents);
  list.used_by({"causal-lm"}, {"text", "jsonl"});
  list.text(
      "answers_after",
      "learn only the tokens that follow this text in a document, up to an end token: the [answers of a "
      "chat](training-data.md#chats); empty: all tokens",
      r.task.answers_after);
  list.used_by({"masked-lm"});
  list.number("mask_probability", "share of the tokens that are predicted", &r.task.mask_probability, 0.01,
              0.9);
  list.flag("whole_words", "mask all tokens of a word or none", r.task.whole_words);
  list.used_by({"classification", "tagging"});
  list.number("token_dropout",
              "share of a training text's tokens that the unknown token (or the mask) replaces, chosen anew "
              "in every epoch",
              &r.task.token_dropout, 0, 0.99);
  list.used_by(kClassification);
  list.choice("problem", "one label, several labels or a value for each text", r.task.problem,
              {"single-label", "multi-label", "regression"});
  list.used_by(tasks_of(kClassification, Tasks{"tagging"}, kImages));
  list.number("class_weights",
              "weights of the loss by label: `\"balanced\"` (n / (labels × n of the label) in the training "
              "set), or a table such as `{ yes = 2, no = 1 }`, others 1; the loss is the weighted mean",
              &r.task.class_weights, 0, kMany);
  list.used_by({"answers"});
  list.count("stride", "overlap of the windows of a long context, in tokens", r.task.stride);
  list.used_by(kDenoising);
  list.choice("objective", "the kind of noise; `bart` is the default for the family `bart`", r.task.objective,
              {"spans", "bart"});
  list.number("noise_density", "share of hidden tokens; 0: 0.15 for `spans`, 0.3 for `bart`",
              &r.task.noise_density, 0, 0.9);
  list.number("span_length", "mean length of a hidden span, in tokens", &r.task.span_length, 1, 100);
  list.flag("permute_sentences", "`bart`: put the sentences of a row in random order",
            r.task.permute_sentences);
  list.used_by(kSpeech);
  list.text("language", "of the speech, for a multilingual Whisper; empty: what its files say",
            r.task.language);
  list.flag("translate", "the texts are English translations, for a multilingual Whisper", r.task.translate);
  list.used_by(tasks_of(kCompared, kPreference));
  list.choice(
      "loss",
      "the default is the task's first: of `embedding` `multiple-negatives`, `cosent`, `cosine` "
      "([vectors](fine-tuning.md#vectors-for-search)); of `reranking` `bce`, `list-net`, `lambda` "
      "([rerankers](fine-tuning.md#rerankers)); of `preference` `dpo`, `ipo`, `orpo`, `simpo` "
      "([preferences](fine-tuning.md#preferences))",
      r.task.loss,
      {"multiple-negatives", "cosent", "cosine", "bce", "list-net", "lambda", "dpo", "ipo", "orpo", "simpo"});
  list.used_by(kEmbedding);
  list.number("scale", "factor of the cosines in `multiple-negatives` and `cosent`: 1 / temperature",
              &r.task.scale, 0.001, 1e4);
  list.flag("symmetric", "`multiple-negatives`: each positive also finds its anchor", r.task.symmetric);
  list.number(
      "matryoshka",
      "the first numbers of a vector that are trained to be vectors themselves, such as `[384, 128, 64]`",
      &r.task.matryoshka, 1, 1e6);
  list.text("query_prompt", "before anchors; the default is the model's prompt `query`, else its default one",
            r.task.query_prompt);
  list.text(
      "document_prompt",
      "before positives and negatives; the default is the model's prompt `document` or `passage`, else its "
      "default one",
      r.task.document_prompt);
  list.used_by(kPreference);
  list.number("beta",
              "`dpo`, `ipo`, `simpo`: how strongly the model is held to the reference, or the scale of "
              "rewards; 0: 0.1, of `simpo` 2",
              &r.task.beta, 0, 1e3);
  list.number("gamma", "`simpo`: the margin of the rewards (gamma itself, not gamma / beta)", &r.task.gamma,
              0, 1e3);
  list.number("lambda", "`orpo`: weight of the odds ratio", &r.task.lambda, 0, 1e3);
  list.text("reference",
            "`dpo`, `ipo`: the folder or name of the reference model; empty: the model of --init as it is "
            "before training, without the adapter",
            r.task.reference);
  list.used_by(kAll);
  list.text("freeze", "patterns of parameters that are not trained, separated by spaces", r.task.freeze);
}

void list_data(FieldList& list, Recipe& r) {
  const Tasks files = tasks_of(kPairFiles, kTexts, kLabeled, kCompared, kImages, kSpeech, kPreference);
  list.section("data");
  list.used_by(files);
  list.choice("format", "the files' [format](training-data.md#formats); the default is the task's first",
              r.data.format,
              {"tsv", "csv", "lines", "jsonl", "chat", "text", "labelled", "conll", "squad", "folders"});
  list.path("train", "file or folder of training data", r.data.train);
  list.path("dev", "file or folder of the development set", r.data.dev);
  list.path("test", "file or folder of the test set", r.data.test);
  list.used_by(kEmbedding);
  list.path("corpus",
            "texts, one a line, that the queries of development and test sets search beside their positives",
            r.data.corpus);
  list.used_by(kPairFiles);
  list.path("train_source", "`lines`: source side of the training pairs", r.data.train_source);
  list.path("train_target", "`lines`: target side of the training pairs", r.data.train_target);
  list.path("dev_source", "`lines`: source side of the development pairs", r.data.dev_source);
  list.path("dev_target", "`lines`: target side of the development pairs", r.data.dev_target);
  list.path("test_source", "`lines`: source side of the test pairs", r.data.test_source);
  list.path("test_target", "`lines`: target side of the test pairs", r.data.test_target);
  list.used_by(tasks_of(kPairFiles, kClassification, kCompared, kImages, kSpeech), kTables);
  list.flag("header", "the first row of a file is not read", r.data.header);
  list.used_by(tasks_of(kPairFiles, kSpeech), kTables);
  list.number("source_column", "column of the source, or of the recording's path, counted from 1",
              &r.data.source_column, 1, 1000);
  list.number("target_column", "column of the target, or of the recording's text, counted from 1",
              &r.data.target_column, 1, 1000);
  list.used_by(tasks_of(kClassification, kImages), kTables);
  list.number("text_column", "column of the text, or of the image's path, counted from 1",
              &r.data.text_column, 1, 1000);
  list.number("label_column", "column of the label, counted from 1", &r.data.label_column, 1, 1000);
  list.used_by(kClassification, kTables);
  list.number("pair_column", "column of the second text; 0: none", &r.data.pair_column, 0, 1000);
  list.number("weight_column", "column of the weight of an example in the loss; 0: none",
              &r.data.weight_column, 0, 1000);
  list.used_by(tasks_of(kTexts, kClassification), kJson);
  list.text("text_key", "field of the text; a list of sentences is joined by spaces", r.data.text_key);
  list.used_by(kClassification, kJson);
  list.text("pair_key", "field of the second text; empty: none", r.data.pair_key);
  list.text("label_key", "field of the label", r.data.label_key);
  list.text("weight_key", "field of the weight of an example in the loss; empty: none", r.data.weight_key);
  list.used_by(tasks_of(kPairFiles, kSpeech), kJson);
  list.text(
      "source_key",
      "field of the source (a list of sentences is joined by spaces), or of a recording's path, by default "
      "`audio`",
      r.data.source_key);
  list.used_by(tasks_of(kPairFiles, kSpeech), kJsonOrFolders);
  list.text(
      "target_key",
      "field of the target, or of a recording's text, by default `text`; of `folders` the column, by default "
      "`transcription`",
      r.data.target_key);
  list.used_by(kPairFiles, kJson);
  list.choice("target_list",
              "what a list under `target_key` is; the default is `references` for `seq2seq`, `sentences` for "
              "`translation`",
              r.data.target_list, {"references", "sentences"});
  list.used_by(kPairFiles);
  list.text("prefix", "put before every source", r.data.prefix);
  list.count("max_source", "longer sources are truncated to this many tokens; 0: not", r.data.max_source);
  list.count("max_target", "longer targets are truncated to this many tokens; 0: not", r.data.max_target);
  list.used_by({"tagging"});
  list.text("word_prefix", "removed where words begin with it", r.data.word_prefix);
  list.used_by(kTexts, {"text"});
  list.choice("documents", "what a document is: a file, a part up to a blank line, or a line",
              r.data.documents, {"file", "paragraph", "line"});
  list.used_by({"causal-lm", "preference"});
  list.choice(
      "longer",
      "what becomes of a document with more than `task.context` tokens where documents are kept apart: it is "
      "truncated, skipped, or (not of `preference`) split; the default is `truncate` for chats and with "
      "`answers_after` (but for `documents = \"file\"`), else `split`",
      r.data.longer, {"truncate", "skip", "split"});
  list.used_by({"causal-lm", "preference"}, {"chat"});
  list.number("bad_share", "share of the lines that may be unusable: they are skipped and counted",
              &r.data.bad_share, 0, 1);
  list.used_by(tasks_of(kTexts, kPreference));
  list.number("dev_share",
              "share of the end of the training texts that is held out, if there is no `dev` file; of "
              "`preference`, pairs of equal prompts stay together",
              &r.data.dev_share, 0, 0.9);
  list.used_by(tasks_of(kLabeled, kCompared, kImages, kSpeech));
  list.number("folds", "number of parts for cross-validation; 0: none", &r.data.folds, 0, 1000);
  list.number("fold", "the part that is the test set", &r.data.fold, 0, 999);
  list.used_by(tasks_of(kPairs, kLabeled, kCompared, kImages, kSpeech));
  list.count("dev_size",
             "examples (of pairs: distinct source texts) held out for evaluation, if there is no `dev` file",
             r.data.dev_size);
  list.count("test_size", "the same for the test set", r.data.test_size);
  list.count("split_seed", "seed of these selections", r.data.split_seed);
  list.used_by(tasks_of(kPairs, kLabeled, kCompared));
  list.count("max_tokens",
             "pairs with a longer side are skipped, longer labeled texts truncated; 0: the model's number "
             "of positions",
             r.data.max_tokens);
  list.used_by(kSpeech);
  list.number("max_seconds", "longer recordings are skipped", &r.data.max_seconds, 0.1, 600);
  list.used_by(kPairs);
  list.number("max_ratio", "largest ratio of longer to shorter side, in tokens; 0: no limit",
              &r.data.max_ratio, 0, kMany);
  list.count("max_pairs", "train on a random selection of this size; 0: all", r.data.max_pairs);
  list.text("source_language", "recorded with the tokenizer", r.data.source_language);
  list.text("target_language", "recorded with the tokenizer", r.data.target_language);
  list.section("augment");
  list.used_by(kImages);
  list.number("crop_scale",
              "below 1: train on a random part of each image, of at least this share of its area, resized to "
              "the model's size",
              &r.augment.crop_scale, 0.01, 1);
  list.number("crop_padding",
              "move the image, at the model's size, by up to this many pixels; what is uncovered is black",
              &r.augment.crop_padding, 0, 1000);
  list.number("flip", "probability that left and right are exchanged", &r.augment.flip, 0, 1);
  list.number("jitter",
              "brightness, contrast and saturation change by random factors from 1 - jitter to 1 + jitter",
              &r.augment.jitter, 0, 1);
  list.number(
      "mixup",
      "mix the images of a batch in pairs, and their losses, in shares from the distribution Beta(mixup, "
      "mixup); 0: not",
      &r.augment.mixup, 0, 1);
  list.section("tokenizer");
  list.path("from",
            "a model directory whose tokenizer is used; otherwise one is trained on the training texts",
            r.tokenizer.from);
  list.choice("type", "[kind of tokenizer](training-data.md#tokenizers); the default is the task's first",
              r.tokenizer.type, {"unigram", "bpe", "byte_bpe", "wordpiece", "word", "character"});
  list.number("vocab_size", "number of tokens; of `reverse`: 2 `task.symbols` + 4, as many as its texts have",
              &r.tokenizer.vocab_size, 8, 1e6);
  list.used_by(tasks_of(kPairs, kDenoising));
  list.choice("special_tokens", "the default follows the family", r.tokenizer.special_tokens,
              {"marian", "t5", "bart"});
  list.number("character_coverage", "fraction of the characters that get a token",
              &r.tokenizer.character_coverage, 0.98, 1);
  list.flag("byte_fallback", "encode other characters as bytes", r.tokenizer.byte_fallback);
  list.choice("normalization", "normalization of SentencePiece", r.tokenizer.normalization,
              {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"});
}

void list_model(FieldList& list, Recipe& r) {
  list.section("model");
  list.text("family",
            "any family of [models](models.md); those besides `marian` take the keys of their config.json "
            "instead of the following",
            r.model.family);
  list.number("d_model", "model dimension", &r.model.d_model, 2, 65536);
  list.number("encoder_layers", "layers of the encoder", &r.model.encoder_layers, 1, 1000);
  list.number("decoder_layers", "layers of the decoder", &r.model.decoder_layers, 1, 1000);
  list.number("heads", "attention heads", &r.model.heads, 1, 65536);
  list.number("ffn", "dimension of the feed-forward layers", &r.model.ffn, 1, 1e7);
  list.choice("activation", "of the feed-forward layers", r.model.activation, {"relu", "gelu", "swish"});
  list.number("dropout", "on embeddings and the outputs of sublayers", &r.model.dropout, 0, 0.99);
  list.number("attention_dropout", "on attention weights", &r.model.attention_dropout, 0, 0.99);
  list.number("activation_dropout", "after the activation", &r.model.activation_dropout, 0, 0.99);
  list.number("max_positions", "longest sequence in tokens", &r.model.max_positions, 2, 1e7);
}

void list_run(FieldList& list, Recipe& r) {
  list.section("lora");
  list.number("rank",
              "rank of the [adapter](training.md#adapters-lora) that is trained instead of the model's "
              "weights; 0: none",
              &r.lora.rank, 0, 65536);
  list.number("alpha", "the adapter is scaled by alpha / rank", &r.lora.alpha, 0, kMany);
  list.flag("rslora", "scale by alpha / sqrt(rank) instead", r.lora.rslora);
  list.number("dropout", "on the adapter's input", &r.lora.dropout, 0, 0.99);
  list.number("targets", "linear maps to adapt: a list of names, an expression, or `\"all-linear\"`",
              &r.lora.targets, 0, 0);
  list.number("train", "modules that are trained whole and saved with the adapter, such as `[\"pooler\"]`",
              &r.lora.train, 0, 0);
  list.section("train");
  list.number("lr", "highest learning rate", &r.train.lr, 0, 1e3);
  list.number("min_lr", "learning rate at the end of `linear` and `cosine`", &r.train.min_lr, 0, 1e3);
  list.choice("schedule", "the learning rate after the warm-up ([formulas](#one-step))", r.train.schedule,
              {"constant", "linear", "cosine", "inverse_sqrt"});
  list.number("warmup", "steps of the warm-up, or, if below 1, a fraction of the run's initial length",
              &r.train.warmup, 0, kMany);
  list.length("steps", "length of the run in steps", r.train.steps);
  list.length(
      "epochs",
      "length of the run in epochs; set at least one of the two; if both are set, the shorter one applies",
      r.train.epochs);
  list.count(
      "batch_tokens",
      "tokens (of images: patches and class token) per micro-batch: rows × longest side, padding included",
      r.train.batch_tokens, 1);
  list.used_by(kEmbedding);
  list.count("batch_rows",
             "rows of a micro-batch, whose texts are compared with each other; they are computed "
             "`batch_tokens` at a "
             "time ([large batches](fine-tuning.md#vectors-for-search))",
             r.train.batch_rows, 1);
  list.used_by(kAll);
  list.count("accumulate", "micro-batches per step", r.train.accumulate, 1);
  list.number("label_smoothing",
              "probability that the target distribution spreads over the vocabulary, or over the labels; of "
              "`dpo` and `simpo`, that the answers of a pair are exchanged",
              &r.train.label_smoothing, 0, 0.99);
  list.number("layer_decay",
              "below 1: the learning rate of each layer is that of the next one times this, and the highest "
              "for the head ([by layer](#learning-rates-of-layers))",
              &r.train.layer_decay, 0.01, 1);
  list.number("clip_norm", "largest norm of the gradient; 0: no clipping", &r.train.clip_norm, 0, kMany);
  list.number("weight_decay", "of AdamW; not on norms and biases", &r.train.weight_decay, 0, 1e3);
  list.number("betas", "of AdamW", &r.train.betas, 0, 0.999999999);
  list.number("eps", "of AdamW", &r.train.eps, 0, 1);
  list.choice("precision", "of matrix products ([mixed precision](#mixed-precision))", r.train.precision,
              {"f32", "bf16"});
  list.choice("weights",
              "`bf16` (with `precision = \"bf16\"`) stores matrices in bf16, beside master copies of AdamW "
              "in f32 ([mixed precision](#mixed-precision))",
              r.train.weights, {"f32", "bf16"})
      .may_change = true;
  list.exact(
      "shard_optimizer",
      "of several processes, each keeps a part of the optimizer's state ([many processes](scaling.md))",
      r.train.shard_optimizer);
  list.exact("gradient_checkpointing",
             "keep only the inputs of layers and compute the layers again in the backward pass ([less "
             "memory](#less-memory))",
             r.train.gradient_checkpointing);
  list.count("seed", "seed of the initial weights, dropout and the order of the data", r.train.seed);
  list.section("eval", true);
  list.number(
      "every",
      "steps between evaluations, or `\"epoch\"` or a number of them such as `\"0.5 epoch\"`; 0: never. "
      "Without a development set there are none",
      &r.eval.every, 0, kMany);
  list.used_by(kPairs);
  list.flag("bleu", "decode the development set of pairs", r.eval.bleu);
  list.choice("scores", "of decoded texts: `bleu` (and `exact`), or `rouge`; the default follows the task",
              r.eval.scores, {"bleu", "rouge"});
  list.count("max_pairs", "number of sources to decode, selected at random; 0: all", r.eval.max_pairs);
  list.used_by(tasks_of(kPairs, kSpeech));
  list.number("beams", "beams when decoding; 1 is greedy", &r.eval.beams, 1, 1000);
  list.count("max_new_tokens", "0: twice the longest source, or the longest text of a recording, plus 10",
             r.eval.max_new_tokens);
  list.used_by(kAll);
  list.text("metric", "`loss` or one of the task's scores: decides which checkpoint is best", r.eval.metric);
  list.count("patience", "end the run after this many evaluations without improvement; 0: no limit",
             r.eval.patience);
  list.section("checkpoint", true);
  list.count("every", "steps between checkpoints", r.checkpoint.every, 1);
  list.count("keep", "number of newest checkpoints to keep, besides those that the final model needs",
             r.checkpoint.keep, 1);
  list.number("average", "number of checkpoints to average for the final model", &r.checkpoint.average, 1,
              1000);
  list.choice("average_of",
              "the best by `eval.metric`, or the last; without evaluations, `best` means `last`",
              r.checkpoint.average_of, {"best", "last"});
  list.choice("dtype", "dtype of the final model's file", r.checkpoint.dtype, {"f32", "bf16", "f16"});
}

std::string_view section_part(std::string_view key) { return key.substr(0, key.find('.')); }
std::string_view name_part(std::string_view key) { return key.substr(key.find('.') + 1); }

// Names that other tools have for a key.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"learning_rate", "train.lr"},
    {"batch_size", "train.batch_tokens"},
    {"per_device_train_batch_size", "train.batch_tokens"},
    {"max_tokens_per_batch", "train.batch_tokens"},
    {"mini_batch_size", "train.batch_tokens"},
    {"matryoshka_dims", "task.matryoshka"},
    {"temperature", "task.scale"},
    {"num_epochs", "train.epochs"},
    {"num_train_epochs", "train.epochs"},
    {"max_epochs", "train.epochs"},
    {"max_steps", "train.steps"},
    {"num_steps", "train.steps"},
    {"iterations", "train.steps"},
    {"max_iters", "train.steps"},
    {"warmup_steps", "train.warmup"},
    {"warmup_ratio", "train.warmup"},
    {"warmup_iters", "train.warmup"},
    {"gradient_accumulation", "train.accumulate"},
    {"gradient_accumulation_steps", "train.accumulate"},
    {"grad_clip", "train.clip_norm"},
    {"max_grad_norm", "train.clip_norm"},
    {"lr_scheduler", "train.schedule"},
    {"lr_scheduler_type", "train.schedule"},
    {"scheduler", "train.schedule"},
    {"adam_epsilon", "train.eps"},
    {"bf16", "train.precision"},
    {"dtype", "train.precision"},
    {"eval_every", "eval.every"},
    {"eval_steps", "eval.every"},
    {"eval_interval", "eval.every"},
    {"early_stopping", "eval.patience"},
    {"early_stopping_patience", "eval.patience"},
    {"num_beams", "eval.beams"},
    {"save_every", "checkpoint.every"},
    {"save_steps", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"train_file", "data.train"},
    {"valid", "data.dev"},
    {"validation", "data.dev"},
    {"validation_file", "data.dev"},
    {"validation_split", "data.dev_share"},
    {"test_file", "data.test"},
    {"max_length", "task.context"},
    {"block_size", "task.context"},
    {"mlm_probability", "task.mask_probability"},
    {"loss_type", "task.loss"},
    {"simpo_gamma", "task.gamma"},
    {"r", "lora.rank"},
    {"lora_alpha", "lora.alpha"},
    {"lora_dropout", "lora.dropout"},
    {"target_modules", "lora.targets"},
    {"modules_to_save", "lora.train"},
};

}  // namespace

std::vector<RecipeField> recipe_fields(Recipe& recipe) {
  FieldList list;
  list_task(list, recipe);
  list_data(list, recipe);
  list_model(list, recipe);
  list_run(list, recipe);
  return list.take();
}

std::string nearest_key_hint(const std::vector<RecipeField>& fields, std::string_view wrong) {
  for (const auto& [synonym, key] : kSynonyms) {
    if (name_part(wrong) != synonym) continue;
    const std::string_view meant = key;
    const bool known =
        std::any_of(fields.begin(), fields.end(), [&](const RecipeField& f) { return f.key == meant; });
    if (known) return fmt::format(" (did you mean {}?)", meant);
  }
  const auto distance = [&](const RecipeField& f) {
    return std::min(edit_distance(f.key, wrong), edit_distance(name_part(f.key), name_part(wrong)) + 1);
  };
  const auto nearest =
      std::min_element(fields.begin(), fields.end(),
                       [&](const RecipeField& a, const RecipeField& b) { return distance(a) < distance(b); });
  const bool near =
      nearest != fields.end() && distance(*nearest) <= std::max<std::size_t>(2, wrong.size() / 4);
  return near ? fmt::format(" (did you mean {}?)", nearest->key) : "";
}

void refuse_unused_keys(const Recipe& recipe) {
  Recipe copy = recipe;
  const std::vector<RecipeField> fields = recipe_fields(copy);
  const auto used = [&](const RecipeField& field) {
    return field.tasks.empty() ||
           std::find(field.tasks.begin(), field.tasks.end(), recipe.task.kind) != field.tasks.end();
  };
  for (const RecipeField& field : fields) {
    const auto given = recipe.given.find(field.key);
    if (given == recipe.given.end() || used(field)) continue;
    std::vector<RecipeField> known;
    std::copy_if(fields.begin(), fields.end(), std::back_inserter(known), [&](const RecipeField& other) {
      return used(other) && section_part(other.key) == section_part(field.key);
    });
    throw Error(fmt::format("{}: expected a key that the task {} uses, got {}, which is for {}{}",
                            given->second, recipe.task.kind, field.key, fmt::join(field.tasks, ", "),
                            nearest_key_hint(known, field.key)));
  }
  for (const RecipeField& field : fields) {
    const auto given = recipe.given.find(field.key);
    const Formats& users = field.formats;
    if (given == recipe.given.end() || users.empty() ||
        std::find(users.begin(), users.end(), recipe.data.format) != users.end())
      continue;
    throw Error(fmt::format("{}: expected a key that data.format = \"{}\" uses, got {}, which is for {}",
                            given->second, recipe.data.format, field.key, fmt::join(users, ", ")));
  }
}

}  // namespace heed
