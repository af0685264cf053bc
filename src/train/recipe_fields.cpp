// All keys of a recipe, in the order of the documentation.
#include "train/recipe_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/edit_distance.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr double kMany = 1e15;

using Tasks = std::vector<std::string>;
const Tasks kPairFiles{"translation", "seq2seq"}, kPairs{"translation", "reverse", "seq2seq"},
    kTexts{"causal-lm", "masked-lm", "denoising"}, kLabelled{"classification", "tagging", "answers"}, kAll{};

Tasks both(Tasks some, const Tasks& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

class FieldList {
 public:
  void section(std::string name, bool may_change = false) {
    section_ = std::move(name) + ".";
    may_change_ = may_change;
    used_by({});
  }
  // The tasks, and the data.format of theirs, that use the following keys of the section.
  void used_by(Tasks tasks, std::string format = "") {
    tasks_ = std::move(tasks);
    format_ = std::move(format);
  }
  void number(const char* name, RecipeField::Target target, double min, double max) {
    add(name, target).min = min;
    fields_.back().max = max;
  }
  void count(const char* name, std::int64_t& target, double min = 0) { number(name, &target, min, kMany); }
  void length(const char* name, std::int64_t& target) {
    count(name, target);
    fields_.back().may_change = true;
  }
  // A flag that changes no number.
  void exact(const char* name, bool& target) { add(name, &target).may_change = true; }
  RecipeField& choice(const char* name, std::string& target, std::vector<std::string> choices) {
    RecipeField& field = add(name, &target);
    field.choices = std::move(choices);
    return field;
  }
  void text(const char* name, std::string& target) { add(name, &target); }
  void flag(const char* name, bool& target) { add(name, &target); }
  void path(const char* name, std::filesystem::path& target) { add(name, &target).may_change = true; }
  std::vector<RecipeField> take() { return std::move(fields_); }

 private:
  RecipeField& add(const char* name, RecipeField::Target target) {
    return fields_.emplace_back(RecipeField{section_ + name, target, 0, 0, {}, may_change_, tasks_, format_});
  }
  std::string section_;
  bool may_change_ = false;
  Tasks tasks_;
  std::string format_;
  std::vector<RecipeField> fields_;
};

void list_task(FieldList& list, Recipe& r) {
  list.section("task");
  list.choice("kind", r.task.kind,
              {"translation", "reverse", "seq2seq", "causal-lm", "masked-lm", "denoising", "classification",
               "tagging", "answers"});
  list.used_by({"reverse"});
  list.number("symbols", &r.task.symbols, 2, 26);
  list.count("min_length", r.task.min_length, 1);
  list.count("max_length", r.task.max_length, 1);
  list.count("pairs", r.task.pairs, 1);
  list.used_by(kTexts);
  list.number("context", &r.task.context, 2, 1e7);
  list.used_by({"causal-lm"});
  list.flag("cross_documents", r.task.cross_documents);
  list.used_by({"masked-lm"});
  list.number("mask_probability", &r.task.mask_probability, 0.01, 0.9);
  list.flag("whole_words", r.task.whole_words);
  list.used_by({"classification", "tagging"});
  list.number("token_dropout", &r.task.token_dropout, 0, 0.99);
  list.used_by({"classification"});
  list.choice("problem", r.task.problem, {"single-label", "multi-label", "regression"});
  list.used_by({"answers"});
  list.count("stride", r.task.stride);
  list.used_by({"denoising"});
  list.choice("objective", r.task.objective, {"spans", "bart"});
  list.number("noise_density", &r.task.noise_density, 0, 0.9);
  list.number("span_length", &r.task.span_length, 1, 100);
  list.flag("permute_sentences", r.task.permute_sentences);
  list.used_by(kAll);
  list.text("freeze", r.task.freeze);
}

void list_data(FieldList& list, Recipe& r) {
  const Tasks files = both(both(kPairFiles, kTexts), kLabelled);
  list.section("data");
  list.used_by(files);
  list.choice("format", r.data.format, {"tsv", "lines", "jsonl", "text", "labelled", "conll", "squad"});
  list.path("train", r.data.train);
  list.path("dev", r.data.dev);
  list.path("test", r.data.test);
  list.used_by(kPairFiles);
  list.path("train_source", r.data.train_source);
  list.path("train_target", r.data.train_target);
  list.path("dev_source", r.data.dev_source);
  list.path("dev_target", r.data.dev_target);
  list.path("test_source", r.data.test_source);
  list.path("test_target", r.data.test_target);
  list.used_by(kPairFiles, "tsv");
  list.number("source_column", &r.data.source_column, 1, 1000);
  list.number("target_column", &r.data.target_column, 1, 1000);
  list.used_by({"classification"}, "tsv");
  list.number("text_column", &r.data.text_column, 1, 1000);
  list.number("pair_column", &r.data.pair_column, 0, 1000);
  list.number("label_column", &r.data.label_column, 1, 1000);
  list.used_by(both(kTexts, {"classification"}), "jsonl");
  list.text("text_key", r.data.text_key);
  list.used_by({"classification"}, "jsonl");
  list.text("pair_key", r.data.pair_key);
  list.text("label_key", r.data.label_key);
  list.used_by(kPairFiles, "jsonl");
  list.text("source_key", r.data.source_key);
  list.text("target_key", r.data.target_key);
  list.choice("target_list", r.data.target_list, {"references", "sentences"});
  list.used_by(kPairFiles);
  list.text("prefix", r.data.prefix);
  list.count("max_source", r.data.max_source);
  list.count("max_target", r.data.max_target);
  list.used_by({"tagging"});
  list.text("word_prefix", r.data.word_prefix);
  list.used_by(kTexts, "text");
  list.choice("documents", r.data.documents, {"file", "paragraph", "line"});
  list.used_by(kTexts);
  list.number("dev_share", &r.data.dev_share, 0, 0.9);
  list.used_by(kLabelled);
  list.number("folds", &r.data.folds, 0, 1000);
  list.number("fold", &r.data.fold, 0, 999);
  list.used_by(both(kPairs, kLabelled));
  list.count("dev_size", r.data.dev_size);
  list.count("test_size", r.data.test_size);
  list.count("split_seed", r.data.split_seed);
  list.count("max_tokens", r.data.max_tokens);
  list.used_by(kPairs);
  list.number("max_ratio", &r.data.max_ratio, 0, kMany);
  list.count("max_pairs", r.data.max_pairs);
  list.text("source_language", r.data.source_language);
  list.text("target_language", r.data.target_language);
  list.section("tokenizer");
  list.path("from", r.tokenizer.from);
  list.choice("type", r.tokenizer.type, {"unigram", "bpe", "byte_bpe", "wordpiece", "word", "character"});
  list.number("vocab_size", &r.tokenizer.vocab_size, 8, 1e6);
  list.used_by(both(kPairs, {"denoising"}));
  list.choice("special_tokens", r.tokenizer.special_tokens, {"marian", "t5", "bart"});
  list.number("character_coverage", &r.tokenizer.character_coverage, 0.98, 1);
  list.flag("byte_fallback", r.tokenizer.byte_fallback);
  list.choice("normalization", r.tokenizer.normalization,
              {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"});
}

void list_model(FieldList& list, Recipe& r) {
  list.section("model");
  list.text("family", r.model.family);
  list.number("d_model", &r.model.d_model, 2, 65536);
  list.number("encoder_layers", &r.model.encoder_layers, 1, 1000);
  list.number("decoder_layers", &r.model.decoder_layers, 1, 1000);
  list.number("heads", &r.model.heads, 1, 65536);
  list.number("ffn", &r.model.ffn, 1, 1e7);
  list.choice("activation", r.model.activation, {"relu", "gelu", "swish"});
  list.number("dropout", &r.model.dropout, 0, 0.99);
  list.number("attention_dropout", &r.model.attention_dropout, 0, 0.99);
  list.number("activation_dropout", &r.model.activation_dropout, 0, 0.99);
  list.number("max_positions", &r.model.max_positions, 2, 1e7);
}

void list_run(FieldList& list, Recipe& r) {
  list.section("lora");
  list.number("rank", &r.lora.rank, 0, 65536);
  list.number("alpha", &r.lora.alpha, 0, kMany);
  list.flag("rslora", r.lora.rslora);
  list.number("dropout", &r.lora.dropout, 0, 0.99);
  list.number("targets", &r.lora.targets, 0, 0);
  list.number("train", &r.lora.train, 0, 0);
  list.section("train");
  list.number("lr", &r.train.lr, 0, 1e3);
  list.number("min_lr", &r.train.min_lr, 0, 1e3);
  list.choice("schedule", r.train.schedule, {"constant", "linear", "cosine", "inverse_sqrt"});
  list.number("warmup", &r.train.warmup, 0, kMany);
  list.length("steps", r.train.steps);
  list.length("epochs", r.train.epochs);
  list.count("batch_tokens", r.train.batch_tokens, 1);
  list.count("accumulate", r.train.accumulate, 1);
  list.number("label_smoothing", &r.train.label_smoothing, 0, 0.99);
  list.number("clip_norm", &r.train.clip_norm, 0, kMany);
  list.number("weight_decay", &r.train.weight_decay, 0, 1e3);
  list.number("betas", &r.train.betas, 0, 0.999999999);
  list.number("eps", &r.train.eps, 0, 1);
  list.choice("precision", r.train.precision, {"f32", "bf16"});
  list.choice("weights", r.train.weights, {"f32", "bf16"}).may_change = true;
  list.exact("shard_optimizer", r.train.shard_optimizer);
  list.exact("gradient_checkpointing", r.train.gradient_checkpointing);
  list.count("seed", r.train.seed);
  list.section("eval", true);
  list.count("every", r.eval.every);
  list.used_by(kPairs);
  list.flag("bleu", r.eval.bleu);
  list.choice("scores", r.eval.scores, {"bleu", "rouge"});
  list.number("beams", &r.eval.beams, 1, 1000);
  list.count("max_pairs", r.eval.max_pairs);
  list.count("max_new_tokens", r.eval.max_new_tokens);
  list.used_by(kAll);
  list.text("metric", r.eval.metric);
  list.count("patience", r.eval.patience);
  list.section("checkpoint", true);
  list.count("every", r.checkpoint.every, 1);
  list.count("keep", r.checkpoint.keep, 1);
  list.number("average", &r.checkpoint.average, 1, 1000);
  list.choice("average_of", r.checkpoint.average_of, {"best", "last"});
  list.choice("dtype", r.checkpoint.dtype, {"f32", "bf16", "f16"});
}

std::string_view section_part(std::string_view key) { return key.substr(0, key.find('.')); }
std::string_view name_part(std::string_view key) { return key.substr(key.find('.') + 1); }

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
    if (given == recipe.given.end() || field.format.empty() || field.format == recipe.data.format) continue;
    throw Error(fmt::format("{}: expected a key that data.format = \"{}\" uses, got {}, which is for {}",
                            given->second, recipe.data.format, field.key, field.format));
  }
}

}  // namespace heed
