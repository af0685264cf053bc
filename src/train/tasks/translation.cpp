// The translation task: data, tokenizer and model for the training loop.
#include "train/tasks/translation.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/stop_scope.h"
#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/generate/search.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "heed/score/bleu.h"
#include "heed/score/rouge.h"
#include "heed/text/training.h"
#include "train/tasks/model_source.h"

namespace heed {
namespace {

constexpr std::int64_t kDecodeBatchTokens = 4096;

// Iterates over the sources, then the targets of a part.
class Sentences {
 public:
  explicit Sentences(const CorpusPart& part) : part_(part) {}
  bool operator()(std::string& sentence) {
    throw_if_stopped();
    const std::size_t rows = part_.rows.size();
    if (next_ == 2 * rows) return false;
    const std::int64_t row = part_.rows[next_ % rows];
    sentence = next_ < rows ? part_.corpus->source(row) : part_.corpus->target(row);
    ++next_;
    return true;
  }

 private:
  const CorpusPart& part_;
  std::size_t next_ = 0;
};

std::vector<std::int32_t> narrow(const std::vector<std::int64_t>& ids) { return {ids.begin(), ids.end()}; }

// The ids of an encoding, of which tokens of the text are dropped from the end until at most `most` are left
// (0: all), special tokens included.
std::vector<std::int64_t> cut_to(Encoding encoding, std::int64_t most, std::atomic<std::int64_t>& cut) {
  std::vector<std::int64_t> ids = std::move(encoding.ids);
  const auto size = static_cast<std::int64_t>(ids.size());
  if (most == 0 || size <= most) return ids;
  ++cut;
  const auto& special = encoding.special_tokens_mask;
  const auto end = std::find(special.rbegin(), special.rend(), 0).base() - special.begin();
  ids.erase(ids.begin() + std::max<std::int64_t>(end - (size - most), 0), ids.begin() + end);
  return ids;
}

std::string in_one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

// Each distinct source once, and the i-th references of all sources (or empty lines) in files of their own.
void write_groups(const CorpusPart& part, const std::filesystem::path& directory, const std::string& name) {
  std::string sources;
  std::vector<std::string> references(1);
  const std::vector<ReferenceGroup> groups = group_references(*part.corpus, part.rows);
  for (const ReferenceGroup& group : groups)
    references.resize(std::max(references.size(), group.references.size()));
  for (const ReferenceGroup& group : groups) {
    sources += in_one_line(group.source) + '\n';
    for (std::size_t i = 0; i < references.size(); ++i)
      references[i] += (i < group.references.size() ? in_one_line(group.references[i]) : "") + '\n';
  }
  write_file(directory / (name + ".source.txt"), sources);
  for (std::size_t i = 0; i < references.size(); ++i) {
    const std::string number = i == 0 ? "" : fmt::format(".{}", i + 1);
    write_file(directory / (name + ".reference" + number + ".txt"), references[i]);
  }
}

std::vector<std::vector<std::string>> reference_streams(const std::vector<ReferenceGroup>& groups) {
  std::size_t most = 1;
  for (const ReferenceGroup& g : groups) most = std::max(most, g.references.size());
  std::vector<std::vector<std::string>> streams(most);
  for (const ReferenceGroup& g : groups) {
    // Repeating a reference changes neither the n-gram matches nor the reference length.
    for (std::size_t i = 0; i < most; ++i)
      streams[i].push_back(g.references[i < g.references.size() ? i : 0]);
  }
  return streams;
}

}  // namespace

TranslationTask::TranslationTask(const Recipe& recipe, const TrainOptions& options,
                                 const std::filesystem::path& checkpoint)
    : recipe_(recipe), options_(options) {
  const Recipe::Task& task = recipe.task;
  const std::optional reversals =
      task.kind == "reverse"
          ? std::optional(Reversals{task.symbols, task.min_length, task.max_length, task.pairs})
          : std::nullopt;
  corpora_ = load_corpora(recipe.data, reversals, options.output,
                          [this](const std::string& text) { message(text); });
  load_or_make(checkpoint);
  DataCounts counts("pairs", "tokens", static_cast<double>(longest()));
  train_ = std::make_shared<const TokenizedCorpus>(tokenize(corpora_.train, "training", counts));
  dev_ = evaluation_set(corpora_.dev, "development", recipe.eval.max_pairs, counts);
  test_ = evaluation_set(corpora_.test, "test", 0, counts);
  data_ = counts.finish();
  begin(BatchPlan(lengths_of(*train_), plan_options(recipe, options)),
        [pairs = train_, pad_id = model_->pad_id()](const BatchPlan::Rows& batch) {
          return make_batch(*pairs, batch.rows, pad_id);
        });
}

void TranslationTask::write_held_out(const std::filesystem::path& directory) const {
  const auto write = [&](const CorpusPart& part, const std::string& name) {
    const bool several = recipe_.data.format == "jsonl" && recipe_.data.target_list == "references";
    if (several && !part.empty()) return write_groups(part, directory, name);
    if (part.empty() || part.corpus != corpora_.train.corpus) return;
    std::string sources;
    std::string references;
    for (const std::int64_t row : part.rows) {
      sources.append(part.corpus->source(row)) += '\n';
      references.append(part.corpus->target(row)) += '\n';
    }
    write_file(directory / (name + ".source.txt"), sources);
    write_file(directory / (name + ".reference.txt"), references);
  };
  write(corpora_.dev, "dev");
  write(corpora_.test, "test");
}

void TranslationTask::message(const std::string& text) const {
  if (options_.on_message) options_.on_message(text);
}

void TranslationTask::load_or_make(const std::filesystem::path& checkpoint) {
  const std::filesystem::path from = model_source(options_, checkpoint);
  if (from.empty()) {
    if (recipe_.tokenizer.from.empty()) {
      make_tokenizer();
    } else {
      tokenizer_ = load_tokenizer(recipe_.tokenizer.from);
    }
  } else {
    tokenizer_ = load_tokenizer(from);
  }
  model_ = encoder_decoder_for(recipe_, *tokenizer_, from);
  for (const auto& [key, most] :
       {std::pair("max_source", recipe_.data.max_source), std::pair("max_target", recipe_.data.max_target)}) {
    const auto positions = model_->max_positions();
    if (positions && most > *positions)
      throw Error(fmt::format("recipe: data.{}: expected at most {}, the model's positions, got {}", key,
                              *positions, most));
  }
  check_fits(*tokenizer_, *model_);
  report_other_ids(*tokenizer_, from, options_);
  parameters_ = trained_parameters(*model_, recipe_);
  message(describe_model(*model_, *tokenizer_));
}

void TranslationTask::make_tokenizer() {
  message(fmt::format("training a {} tokenizer on {} sentences", recipe_.tokenizer.type,
                      2 * corpora_.train.rows.size()));
  if (recipe_.tokenizer.special_tokens != "marian") {
    const std::int64_t longest = std::max(recipe_.data.max_source, recipe_.data.max_target);
    tokenizer_ =
        train_tokenizer(tokenizer_training(recipe_, longest > 0 ? longest : recipe_.model.max_positions),
                        Sentences(corpora_.train));
    return;
  }
  MarianTokenizerOptions options;
  options.sentencepiece.model_type = recipe_.tokenizer.type;
  options.sentencepiece.vocab_size = recipe_.tokenizer.vocab_size;
  options.sentencepiece.character_coverage = recipe_.tokenizer.character_coverage;
  options.sentencepiece.byte_fallback = recipe_.tokenizer.byte_fallback;
  options.sentencepiece.normalization = recipe_.tokenizer.normalization;
  options.source_language = recipe_.data.source_language;
  options.target_language = recipe_.data.target_language;
  options.model_max_length = recipe_.model.max_positions;
  tokenizer_ = train_marian_tokenizer(options, Sentences(corpora_.train));
}

std::vector<std::int64_t> TranslationTask::source_ids(std::string_view text,
                                                      std::atomic<std::int64_t>& cut) const {
  const std::string& prefix = recipe_.data.prefix;
  return cut_to(tokenizer_->encode(prefix.empty() ? std::string(text) : prefix + std::string(text)),
                recipe_.data.max_source, cut);
}

std::vector<std::int64_t> TranslationTask::target_ids(std::string_view text,
                                                      std::atomic<std::int64_t>& cut) const {
  return cut_to(tokenizer_->encode_target(text), recipe_.data.max_target, cut);
}

// Of a side of a pair, in tokens.
std::int64_t TranslationTask::longest() const {
  std::int64_t longest = recipe_.data.max_tokens;
  const std::int64_t positions = model_->max_positions().value_or(recipe_.train.batch_tokens);
  if (longest == 0 || longest > positions) longest = positions;
  return std::min(longest, recipe_.train.batch_tokens);
}

TokenizedCorpus TranslationTask::tokenize(const CorpusPart& part, const char* name,
                                          DataCounts& counts) const {
  if (part.empty()) return TokenizedCorpus();
  const TokenLimits limits{longest(), longest(), recipe_.data.max_ratio};
  DataReport report;
  report.lines = report.kept = static_cast<std::int64_t>(part.rows.size());
  std::atomic<std::int64_t> cut_sources = 0, cut_targets = 0;
  TokenizedCorpus pairs = tokenize_corpus(
      *part.corpus, part.rows, [&](std::string_view text) { return narrow(source_ids(text, cut_sources)); },
      [&](std::string_view text) { return narrow(target_ids(text, cut_targets)); }, limits, report,
      options_.output);
  if (cut_sources + cut_targets > 0)
    message(fmt::format("tokens of the {} set: {} sources truncated to {}, {} targets to {}", name,
                        cut_sources.load(), recipe_.data.max_source, cut_targets.load(),
                        recipe_.data.max_target));
  if (report.skipped_count() > 0) message(fmt::format("tokens of the {} set: {}", name, report.summary()));
  counts.begin(name);
  counts.set().truncated = cut_sources + cut_targets;
  counts.set().left_out = report.skipped_count();
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    const ParallelCorpus& corpus = *part.corpus;
    const std::int64_t row = part.rows[i];
    const bool same = i > 0 && part.rows[i - 1] == row - 1 && corpus.line(row - 1) == corpus.line(row);
    if (same) continue;  // a further reference
    counts.add(std::hash<std::string_view>()(corpus.source(row)));
    counts.set().replaced +=
        data::has_lost_characters(corpus.source(row)) || data::has_lost_characters(corpus.target(row));
  }
  for (const ExampleLength& length : lengths_of(pairs))
    counts.add_length(static_cast<double>(length.longest));
  return pairs;
}

EvaluationSet TranslationTask::evaluation_set(const CorpusPart& part, const char* name, std::int64_t limit,
                                              DataCounts& counts) const {
  EvaluationSet set;
  set.pairs = tokenize(part, name, counts);
  if (part.empty()) return set;
  const std::vector<ReferenceGroup> groups = group_references(*part.corpus, part.rows);
  const std::vector<std::int64_t> chosen = random_choice(static_cast<std::int64_t>(groups.size()), limit,
                                                         static_cast<std::uint64_t>(recipe_.data.split_seed));
  for (const std::int64_t i : chosen) {
    const ReferenceGroup& group = groups[static_cast<std::size_t>(i)];
    std::atomic<std::int64_t> cut = 0;  // already counted
    std::vector<std::int64_t> ids = source_ids(group.source, cut);
    if (static_cast<std::int64_t>(ids.size()) >
        model_->max_positions().value_or(recipe_.train.batch_tokens)) {
      continue;  // already counted as too long
    }
    set.sources.push_back(std::move(ids));
    set.references.push_back(group);
  }
  return set;
}

SummedLoss TranslationTask::next_loss(Context& context) {
  const Batch batch = next_batch();
  if (batch.target_tokens == 0) return {};
  const CrossEntropyOptions options{.label_smoothing = recipe_.train.label_smoothing,
                                    .ignore_index = kIgnoredLabel,
                                    .reduction = Reduction::sum};
  return {.sum = model_->loss({batch.source_ids, batch.source_mask}, batch.labels, options, context),
          .tokens = batch.target_tokens,
          .read = batch.source_tokens + batch.target_tokens};
}

double TranslationTask::mean_loss(const TokenizedCorpus& pairs) const {
  BatchPlanOptions share = plan_options(recipe_, options_);
  share.shuffle = false;
  BatchPlan plan(lengths_of(pairs), share);
  const CrossEntropyOptions options{.ignore_index = kIgnoredLabel, .reduction = Reduction::sum};
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t left = plan.batches_in_epoch(); left > 0; --left) {
    const Batch batch = make_batch(pairs, plan.next().rows, model_->pad_id());
    if (batch.target_tokens == 0) continue;
    Context context;
    sum += model_->loss({batch.source_ids, batch.source_mask}, batch.labels, options, context).item();
    tokens += batch.target_tokens;
  }
  const std::vector<double> total = processes_of(options_).sum({sum, static_cast<double>(tokens)});
  return total[0] / total[1];
}

void TranslationTask::decode(const EvaluationSet& set, Evaluation& evaluation) const {
  std::size_t longest = 0;
  for (const auto& source : set.sources) longest = std::max(longest, source.size());
  std::int64_t limit = recipe_.eval.max_new_tokens;
  if (limit == 0) limit = recipe_.data.max_target;
  if (limit == 0) limit = 2 * static_cast<std::int64_t>(longest) + 10;
  limit = std::min(limit, model_->max_positions().value_or(limit + 1) - 1);
  GenerationOptions options;
  options.max_new_tokens = limit;
  options.num_beams = recipe_.eval.beams;
  options.bad_words_ids = {{model_->pad_id()}};
  options.eos_token_id = {model_->eos_id()};
  options.pad_token_id = model_->pad_id();
  options.decoder_start_token_id = model_->decoder_start_id();
  Communicator& world = processes_of(options_);
  const auto [begin, end] = part_of(std::ssize(set.sources), world.rank(), world.size());
  std::vector<std::string> texts;
  const std::vector<std::vector<std::int64_t>> own(set.sources.begin() + begin, set.sources.begin() + end);
  if (!own.empty()) {
    for (const auto& hypotheses : search_sources(*model_, own, options, kDecodeBatchTokens))
      texts.push_back(tokenizer_->decode(hypotheses.front().ids));
  }
  const std::vector<std::string> outputs = gather_texts(world, texts);
  std::int64_t exact = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<std::string>& references = set.references[i].references;
    if (std::find(references.begin(), references.end(), outputs[i]) != references.end()) ++exact;
    evaluation.predictions.push_back({.number = static_cast<std::int64_t>(i),
                                      .text = set.references[i].source,
                                      .right = references.front(),
                                      .predicted = outputs[i]});
  }
  if (recipe_.eval.scores == "rouge") {
    const RougeScores rouge = corpus_rouge(outputs, reference_streams(set.references));
    evaluation.metrics = {{"rouge1", rouge.rouge1.f1},
                          {"rouge2", rouge.rouge2.f1},
                          {"rougeL", rouge.rougeL.f1},
                          {"rougeLsum", rouge.rougeLsum.f1}};
    return;
  }
  // A sum of rounded logarithms may exceed 100 a little.
  const double bleu = std::min(100.0, corpus_bleu(outputs, reference_streams(set.references)).score);
  evaluation.metrics = {{"bleu", bleu},
                        {"exact", 100.0 * static_cast<double>(exact) / static_cast<double>(outputs.size())}};
}

Evaluation TranslationTask::evaluate(const EvaluationSet& set) const {
  const NoGradients off;
  Evaluation evaluation{.loss = mean_loss(set.pairs)};
  if (recipe_.eval.bleu && !set.sources.empty()) decode(set, evaluation);
  return evaluation;
}

std::optional<Evaluation> TranslationTask::test() {
  if (test_.pairs.size() == 0) return std::nullopt;
  return evaluate(test_);
}

void TranslationTask::save(const std::filesystem::path& directory, DType dtype) const {
  tokenizer_->save(directory);
  model_->save(directory, dtype);
  if (recipe_.lora.rank > 0) return;
  // At inference, limit texts to the trained lengths.
  const std::int64_t most_read = recipe_.data.max_source, most_written = recipe_.data.max_target;
  const std::filesystem::path file = directory / "generation_config.json";
  const Config generation = Config::load(file);
  const bool other = generation.has("max_source_length");  // of the run before
  if (most_read == 0 && most_written == 0 && !other) return;
  JsonWriter limits;
  limits.begin_object();
  if (most_read > 0 || other)
    limits.field("max_source_length", most_read > 0 ? std::optional(most_read) : std::nullopt);
  if (most_written > 0 && !generation.has("max_length") && !generation.has("max_new_tokens"))
    limits.field("max_new_tokens", most_written);
  write_file(file, generation.with(limits.end_object().text()).text() + "\n");
}

std::string TranslationTask::fingerprint() const {
  Fingerprint hash;
  for (const TokenizedCorpus* pairs : {train_.get(), &dev_.pairs}) {
    for (std::int64_t row = 0; row < pairs->size(); ++row) {
      hash.add(pairs->source(row));
      hash.add(pairs->target(row));
    }
  }
  return hash.text();
}

}  // namespace heed
