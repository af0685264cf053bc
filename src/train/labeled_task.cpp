// Models, tokenizers and batches of tasks on labeled texts.
#include "train/labeled_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "heed/random.h"
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
  const std::filesystem::path& given = from.empty() ? recipe_.tokenizer.from : from;
  if (!given.empty()) {
    tokenizer_ = load_tokenizer(given);
  } else {
    TokenizerTraining training;
    training.type = recipe_.tokenizer.type;
    training.special_tokens = recipe_.tokenizer.special_tokens;
    training.vocab_size = recipe_.tokenizer.vocab_size;
    message(fmt::format("training a {} tokenizer", training.type));
    tokenizer_ = train_tokenizer(training, texts);
  }
  Generator generator = initial_weights(recipe_);
  const Config config = from.empty() ? new_model_config(recipe_, *tokenizer_, "{}") : load_model_config(from);
  const Config with_head =
      config.with("{\"architectures\": [\"" + class_with_head(config, head) + "\"]}").with(members);
  model_ = from.empty() ? make_encoder(with_head, generator) : load_encoder(from, with_head, generator);
  check_fits(*tokenizer_, *model_);
  report_other_ids(*tokenizer_, from, options_);
  parameters_ = trained_parameters(*model_, recipe_);
  message(describe_model(*model_, *tokenizer_));
}

void LabeledTask::report_control_bytes(const std::filesystem::path& path, std::int64_t count) const {
  if (count > 0) message(fmt::format("warning: {}: {}", path.string(), data::control_bytes_text(count)));
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
  begin(BatchPlan(lengths_of(*examples_), plan_options(recipe_, options_)),
        [examples = examples_, make = std::move(make)](const BatchPlan::Rows& batch) {
          return make(*examples, batch.rows, batch.all, batch.position.epoch);
        });
}

SummedLoss LabeledTask::next_loss(Context& context) {
  const LabeledBatch batch = next_batch();
  if (batch.rows.empty()) return {};
  const CrossEntropyOptions options{.label_smoothing = recipe_.train.label_smoothing,
                                    .ignore_index = kIgnoredLabel,
                                    .reduction = Reduction::sum};
  return {model_->loss(batch.inputs, batch.labels, options, context), batch.targets};
}

void LabeledTask::for_each_batch(const Examples& examples,
                                 const std::function<void(const LabeledBatch&)>& handle) const {
  const NoGradients off;
  const BatchMaker make = maker_of(*model_);
  BatchPlan plan(lengths_of(examples), {.batch_tokens = recipe_.train.batch_tokens, .shuffle = false});
  const Communicator& world = processes_of(options_);
  for (std::int64_t i = 0, count = plan.batches_in_epoch(); i < count; ++i) {
    const BatchPlan::Rows planned = plan.next();
    if (i % world.size() == world.rank()) handle(make(examples, planned.rows, planned.rows, 0));
  }
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

}  // namespace heed
