// Models, tokenizers and batches of tasks on labeled texts.
#include "train/tasks/labeled_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "core/stop_scope.h"
#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/ops/reduce.h"
#include "heed/random.h"
#include "heed/score/labels.h"
#include "heed/tasks/batches.h"
#include "heed/text/training.h"
#include "models/labels.h"

namespace heed {
namespace {

constexpr std::uint64_t kTokenDropout = std::uint64_t{1}
                                        << 61;  // first random stream; those of the plan are smaller

// Replaces a share of a text's tokens, chosen anew in every epoch (Iyyer et al. 2015, "word dropout").
struct TokenDropout {
  double share = 0;
  std::int64_t replacement = 0;
  std::vector<bool> special = {};  // of each id of the vocabulary: never replaced
  std::uint64_t seed = 0;

  void operator()(std::int64_t* ids, std::size_t length, std::int64_t row, std::int64_t epoch) const {
    if (share == 0) return;
    const RandomStream random{
        seed, kTokenDropout | static_cast<std::uint64_t>(epoch) << 32 | static_cast<std::uint64_t>(row)};
    for (std::size_t i = 0; i < length; ++i) {
      if (random.uniform(i) < share && !special[static_cast<std::size_t>(ids[i])]) ids[i] = replacement;
    }
  }
};

// Owns what the reader's thread needs to make batches.
struct BatchMaker {
  std::int64_t pad_id = 0;
  bool type_ids = false;
  EncoderHead head = EncoderHead::sequence;
  TokenDropout token_dropout = {};
  bool weighted = false;  // the examples have weights of their own

  // `rows` are a share of the batch `all`. The loss of spans is over the padded width, so that of a share has
  // the whole batch's.
  LabeledBatch operator()(const SpilledRecords<Example>& examples, std::span<const std::int64_t> rows,
                          std::span<const std::int64_t> all, std::int64_t epoch) const {
    if (rows.empty()) return {};
    std::int64_t width = 0;
    for (const std::int64_t row : head == EncoderHead::span ? all : rows)
      width = std::max(width, size_of(examples, row));
    const Shape shape{static_cast<std::int64_t>(rows.size()), width};
    LabeledBatch batch;
    batch.rows.assign(rows.begin(), rows.end());
    for (const std::int64_t row : rows) {
      if (weighted) batch.weights.push_back(static_cast<float>(examples[row].weight));
    }
    batch.inputs.ids = Tensor::full(shape, static_cast<double>(pad_id), DType::i64);
    batch.inputs.mask = Tensor::zeros(shape, DType::i64);
    if (type_ids) batch.inputs.type_ids = Tensor::zeros(shape, DType::i64);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Example example = examples[rows[i]];
      const auto at = static_cast<std::int64_t>(i) * width;
      std::int64_t* ids = batch.inputs.ids.data<std::int64_t>() + at;
      std::copy(example.ids.begin(), example.ids.end(), ids);
      token_dropout(ids, example.ids.size(), rows[i], epoch);
      std::fill_n(batch.inputs.mask.data<std::int64_t>() + at, example.ids.size(), 1);
      if (type_ids)
        std::copy(example.type_ids.begin(), example.type_ids.end(),
                  batch.inputs.type_ids.data<std::int64_t>() + at);
    }
    add_labels(batch, examples, width);
    return batch;
  }

 private:
  static std::int64_t size_of(const SpilledRecords<Example>& examples, std::int64_t row) {
    return std::ssize(examples[row].ids);
  }
  void add_labels(LabeledBatch& batch, const SpilledRecords<Example>& examples, std::int64_t width) const {
    const auto count = static_cast<std::int64_t>(batch.rows.size());
    const Example first = examples[batch.rows.front()];
    batch.targets = count;
    if (!first.values.empty()) {
      std::vector<float> values;
      for (const std::int64_t row : batch.rows) {
        const Example example = examples[row];
        values.insert(values.end(), example.values.begin(), example.values.end());
      }
      batch.labels = Tensor::from(values, {count, static_cast<std::int64_t>(first.values.size())});
      return;
    }
    const std::int64_t labels = head == EncoderHead::token ? width : head == EncoderHead::span ? 2 : 1;
    batch.labels = Tensor::full(labels == 1 ? Shape{count} : Shape{count, labels},
                                static_cast<double>(kIgnoredLabel), DType::i64);
    for (std::int64_t i = 0; i < count; ++i) {
      const Example example = examples[batch.rows[static_cast<std::size_t>(i)]];
      std::copy(example.labels.begin(), example.labels.end(), batch.labels.data<std::int64_t>() + i * labels);
    }
    if (head != EncoderHead::token) return;
    const std::int64_t* label = batch.labels.data<std::int64_t>();
    batch.targets =
        std::count_if(label, label + batch.labels.numel(), [](std::int64_t l) { return l != kIgnoredLabel; });
  }
};

BatchMaker maker_of(const EncoderModel& model) {
  return {model.pad_id(), model.type_vocab_size() > 1, model.head()};
}

TokenDropout token_dropout(const Recipe& recipe, const Tokenizer& tokenizer) {
  TokenDropout dropout{recipe.task.token_dropout};
  if (dropout.share == 0) return dropout;
  const std::optional<std::int64_t> id = tokenizer.unk_id() ? tokenizer.unk_id() : tokenizer.mask_id();
  if (!id) {
    throw Error(
        "task.token_dropout: expected a tokenizer with a token for the unknown or a mask, got one without "
        "(set it to 0)");
  }
  dropout.replacement = *id;
  for (std::int64_t i = 0; i < tokenizer.vocab_size(); ++i)
    dropout.special.push_back(tokenizer.is_special(i));
  dropout.seed = static_cast<std::uint64_t>(recipe.train.seed);
  return dropout;
}

std::vector<ExampleLength> lengths_of(const SpilledRecords<Example>& examples) {
  std::vector<ExampleLength> lengths;
  lengths.reserve(static_cast<std::size_t>(examples.size()));
  for (std::int64_t i = 0; i < examples.size(); ++i) {
    const std::int64_t size = std::ssize(examples[i].ids);
    lengths.push_back({size, size});
  }
  return lengths;
}

}  // namespace

void LabeledTask::load_or_make(const std::filesystem::path& checkpoint, const SentenceSource& texts,
                               const std::string& head, const std::string& members) {
  const std::filesystem::path from = model_source(options_, checkpoint);
  tokenizer_ = tokenizer_for(recipe_, options_, from, texts);
  model_ = encoder_for(recipe_, *tokenizer_, from, head, members);
  check_fits(*tokenizer_, *model_);
  report_other_ids(*tokenizer_, from, options_);
  parameters_ = trained_parameters(*model_, recipe_);
  message(describe_model(*model_, *tokenizer_));
}

void LabeledTask::report_control_bytes(const std::filesystem::path& path, std::int64_t count) const {
  if (count > 0) message(fmt::format("warning: {}: {}", path.string(), data::control_bytes_text(count)));
}

Encoding LabeledTask::encode(const std::string& text, std::optional<std::string_view> pair,
                             const Truncation& truncation, DataCounts& counts) const {
  bool shortened = false;
  Encoding encoding = tokenizer_->encode_truncated(text, pair, truncation, true, &shortened);
  const std::int64_t whole = !shortened ? encoding.size()
                             : pair     ? tokenizer_->encode_pair(text, *pair).size()
                                        : tokenizer_->encode(text).size();
  counts.add_length(static_cast<double>(whole));
  counts.set().truncated += shortened;
  counts.set().replaced += data::has_lost_characters(text) || (pair && data::has_lost_characters(*pair));
  return encoding;
}

std::int64_t LabeledTask::longest() const {
  const std::int64_t most = std::min(longest_input(*model_, *tokenizer_), recipe_.train.batch_tokens);
  return recipe_.data.max_tokens > 0 ? std::min(most, recipe_.data.max_tokens) : most;
}

void LabeledTask::begin_training(Examples examples) {
  examples_ = std::make_shared<const Examples>(std::move(examples));
  if (examples_->empty()) return;  // an evaluation
  BatchMaker make = maker_of(*model_);
  make.token_dropout = token_dropout(recipe_, *tokenizer_);
  make.weighted = recipe_.data.weight_column > 0 || !recipe_.data.weight_key.empty();
  if (recipe_.task.class_weights.given())
    class_weights_ = class_weights(recipe_.task.class_weights, model_->labels(), data_.sets.front().labels);
  begin(BatchPlan(lengths_of(*examples_), plan_options(recipe_, options_)),
        [examples = examples_, make = std::move(make)](const BatchPlan::Rows& batch) {
          return make(*examples, batch.rows, batch.all, batch.position.epoch);
        });
}

SummedLoss LabeledTask::next_loss(Context& context) {
  const LabeledBatch batch = next_batch();
  if (batch.rows.empty()) return {};
  if (!class_weights_.empty() || !batch.weights.empty()) return weighted_loss(batch, context);
  const CrossEntropyOptions options{.label_smoothing = recipe_.train.label_smoothing,
                                    .ignore_index = kIgnoredLabel,
                                    .reduction = Reduction::sum};
  return {model_->loss(batch.inputs, batch.labels, options, context), batch.targets};
}

SummedLoss LabeledTask::weighted_loss(const LabeledBatch& batch, Context& context) const {
  const CrossEntropyOptions options{.label_smoothing = recipe_.train.label_smoothing,
                                    .ignore_index = kIgnoredLabel,
                                    .reduction = Reduction::none};
  const Tensor logits = model_->predict(model_->encode(batch.inputs, context), batch.inputs.mask, context);
  const Tensor losses = model_->head() == EncoderHead::token
                            ? cross_entropy(logits, batch.labels, options)
                            : sequence_loss(logits, batch.labels, problem_of(recipe_), options);
  SummedLoss loss = weighted_sum(losses, batch.labels, class_weights_, batch.weights);
  loss.tokens = batch.targets;
  return loss;
}

void LabeledTask::for_each_batch(const Examples& examples,
                                 const std::function<void(const LabeledBatch&)>& handle) const {
  const NoGradients off;
  const BatchMaker make = maker_of(*model_);
  heed::for_each_batch(lengths_of(examples), recipe_, options_,
                       [&](const std::vector<std::int64_t>& rows) { handle(make(examples, rows, rows, 0)); });
}

void LabeledTask::save(const std::filesystem::path& directory, DType dtype) const {
  tokenizer_->save(directory);
  model_->save(directory, dtype);
}

std::string LabeledTask::fingerprint() const {
  Fingerprint hash;
  for (std::int64_t i = 0; i < examples_->size(); ++i) {
    const Example example = (*examples_)[i];
    hash.add(example.ids);
    for (const std::int64_t label : example.labels) hash.add(static_cast<std::uint64_t>(label));
    for (const float value : example.values) hash.add(std::bit_cast<std::uint32_t>(value));
  }
  return hash.text();
}

LabelProblem problem_of(const Recipe& recipe) {
  if (recipe.task.problem == "regression") return LabelProblem::regression;
  return recipe.task.problem == "multi-label" ? LabelProblem::multi_label : LabelProblem::single_label;
}

SentenceSource texts_of(const ChosenRecords<ComparedEntries>& rows) {
  return [&rows, row = std::int64_t{0}, next = std::size_t{0}](std::string& text) mutable {
    if (row == rows.size()) return false;
    ComparedTexts compared = rows[row];
    text = std::move(next == 0 ? compared.query : compared.texts[next - 1]);
    if (next++ == compared.texts.size()) ++row, next = 0;
    return true;
  };
}

std::map<std::string, LabelCount> count_labels(const LabeledTexts& texts) {
  std::map<std::string, LabelCount> counts;
  for (std::int64_t i = 0; i < texts.size(); ++i) {
    throw_if_stopped();
    for (std::string& label : texts[i].labels)
      ++counts.try_emplace(std::move(label), LabelCount{0, i}).first->second.count;
  }
  return counts;
}

std::vector<std::string> sorted_labels(const std::map<std::string, LabelCount>& counts) {
  const auto number = [](const std::string& label) {
    double value = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
    return error == std::errc() && end == label.data() + label.size() ? value : HUGE_VAL;
  };
  std::vector<std::string> sorted;
  for (const auto& [name, count] : counts) sorted.push_back(name);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const std::string& a, const std::string& b) { return number(a) < number(b); });
  return sorted;
}

const char* header_hint(const LabeledText& text, const DataOptions& data) {
  const bool table = data.format == "tsv" || data.format == "csv";
  return table && text.line == 1 && !data.header ? " (is it a header line? data.header = true skips it)" : "";
}

std::string rare_labels(const LabeledTexts& texts, const std::map<std::string, LabelCount>& counts,
                        const DataOptions& data) {
  std::vector<std::string> rare;
  for (const auto& [name, count] : counts) {
    if (count.count > 1) continue;
    const LabeledText text = texts[count.first];
    rare.push_back(fmt::format("\"{}\" at {}{}", name, texts.where(text), header_hint(text, data)));
  }
  constexpr std::size_t kNamed = 5;
  const std::size_t more = rare.size() > kNamed ? rare.size() - kNamed : 0;
  rare.resize(rare.size() - more);
  if (rare.empty()) return "";
  return fmt::format("warning: labels with one example: {}{}", fmt::join(rare, ", "),
                     more > 0 ? fmt::format(", and {} more", more) : "");
}

std::vector<std::string> known_labels(const std::filesystem::path& from, std::vector<std::string> names) {
  if (from.empty()) return names;
  const std::vector<std::string> known = label_names(load_model_config(from));
  const bool all = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  });
  return all ? known : names;
}

void check_labels(const std::vector<std::string>& names, const char* what,
                  const std::filesystem::path& file) {
  if (names.size() > 1) return;
  throw Error(
      fmt::format("{}: expected at least two different {}, got only \"{}\" (is it a file of another kind?)",
                  file.string(), what, names.empty() ? "" : names.front()));
}

std::int64_t label_number(const std::vector<std::string>& names, const std::string& label,
                          const std::string& where, const char* hint) {
  const auto found = std::find(names.begin(), names.end(), label);
  if (found != names.end()) return found - names.begin();
  throw Error(fmt::format("{}: expected one of the labels of training ({}), got \"{}\"{}", where,
                          fmt::join(names, ", "), label, hint));
}

std::vector<double> class_weights(const ClassWeights& weights, const std::vector<std::string>& names,
                                  const std::map<std::string, std::int64_t>& counts) {
  std::vector<double> by_label(names.size(), 1.0);
  for (const auto& [label, weight] : weights.labels) {
    by_label[static_cast<std::size_t>(label_number(names, label, "recipe: task.class_weights", ""))] = weight;
  }
  if (!weights.balanced) return by_label;
  double all = 0;
  for (const auto& [label, count] : counts) all += static_cast<double>(count);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = counts.find(names[i]);
    if (found != counts.end())
      by_label[i] = all / static_cast<double>(counts.size() * static_cast<std::size_t>(found->second));
  }
  return by_label;
}

SummedLoss weighted_sum(const Tensor& losses, const Tensor& labels, const std::vector<double>& by_label,
                        const std::vector<float>& own) {
  std::vector<float> weights(static_cast<std::size_t>(losses.numel()), 1);
  const std::size_t width = weights.size() / static_cast<std::size_t>(losses.size(0));
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!own.empty()) weights[i] = own[i / width];
    if (labels.dtype() == DType::i64 && labels.numel() == losses.numel()) {
      const std::int64_t label = labels.data<std::int64_t>()[i];
      if (label == kIgnoredLabel) weights[i] = 0;
      if (label != kIgnoredLabel && !by_label.empty())
        weights[i] *= static_cast<float>(by_label[static_cast<std::size_t>(label)]);
    }
    total += static_cast<double>(weights[i]);
  }
  return {.sum = sum(losses * Tensor::from(weights, losses.shape())), .weight = total};
}

std::string label_members(const std::vector<std::string>& names, std::string_view problem) {
  JsonWriter json;
  json.begin_object();
  json.key("id2label").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) json.field(std::to_string(i), names[i]);
  json.end_object();
  json.key("label2id").begin_object();
  for (std::size_t i = 0; i < names.size(); ++i) json.field(names[i], i);
  json.end_object();
  json.field("num_labels", nullptr);  // another model's
  if (!problem.empty()) json.field("problem_type", problem);
  return json.end_object().text();
}

std::vector<Metric> label_metrics(const std::vector<std::size_t>& predicted,
                                  const std::vector<std::size_t>& right, std::size_t labels) {
  const LabelReport report = label_report(predicted, right, labels);
  return {{"accuracy", 100 * report.accuracy}, {"f1", 100 * report.macro_f1}};
}

}  // namespace heed
