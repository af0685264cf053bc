// Masked language modeling: chooses and replaces tokens.
#include <fmt/format.h>

#include <algorithm>

#include "data/denoising.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/registry.h"
#include "heed/ops/loss.h"
#include "heed/ops/shape.h"
#include "heed/random.h"
#include "train/tasks/language_modeling.h"

namespace heed {
namespace {

constexpr std::uint64_t kMasks = std::uint64_t{1}
                                 << 62;  // first random stream; those of the plan are smaller
constexpr std::int64_t kFixedMasks = std::int64_t{1} << 29;  // the "epoch" of evaluations

// Everything that makes a masked row, owned by the reader's thread.
struct MaskedRows {
  std::shared_ptr<const TextCorpus> corpus;
  std::vector<TextRow> rows = {};
  std::vector<bool> special = {};         // of each id of the vocabulary: never a random replacement
  std::vector<bool> continues_word = {};  // of each id; empty: every token is masked on its own
  std::int64_t first = 0, last = 0, mask = 0, pad = 0, vocab_size = 0;
  double probability = 0.15;
  std::uint64_t seed = 0;
};

// Replaces chosen tokens of a row in place, and labels them.
void mask_row(const MaskedRows& source, std::int64_t* ids, std::int64_t* labels, std::int64_t length,
              const RandomStream& random) {
  const auto share = static_cast<std::uint32_t>(source.probability * 4294967296.0);
  bool chosen = false;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto at = static_cast<std::uint64_t>(3 * i);
    const std::int64_t id = ids[i];
    const bool same_word =
        i > 0 && !source.continues_word.empty() && source.continues_word[static_cast<std::size_t>(id)];
    if (!same_word) chosen = random.word(at) < share;
    if (!chosen) continue;
    labels[i] = id;
    const std::uint32_t how = random.word(at + 1) % 10;
    if (how < 8) ids[i] = source.mask;
    if (how != 8) continue;
    const auto other = static_cast<std::int64_t>(random.word(at + 2)) * source.vocab_size >> 32;
    if (!source.special[static_cast<std::size_t>(other)]) ids[i] = other;
  }
}

TokenBatch batch_of_masked(const MaskedRows& source, std::span<const std::int64_t> rows, std::int64_t epoch) {
  std::int64_t width = 0;
  const auto tokens_of = [&](std::int64_t row) { return source.rows[static_cast<std::size_t>(row)]; };
  for (const std::int64_t row : rows)
    width = std::max(width, tokens_of(row).second - tokens_of(row).first + 2);
  const Shape shape{static_cast<std::int64_t>(rows.size()), width};
  TokenBatch batch{Tensor::full(shape, static_cast<double>(source.pad), DType::i64),
                   Tensor::zeros(shape, DType::i64),
                   Tensor::full(shape, static_cast<double>(kIgnoredLabel), DType::i64), 0};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [begin, end] = tokens_of(rows[i]);
    std::int64_t* ids = batch.ids.data<std::int64_t>() + static_cast<std::int64_t>(i) * width;
    std::int64_t* labels = batch.labels.data<std::int64_t>() + static_cast<std::int64_t>(i) * width;
    ids[0] = source.first;
    std::copy_n(source.corpus->ids().data() + begin, end - begin, ids + 1);
    ids[end - begin + 1] = source.last;
    std::fill_n(batch.mask.data<std::int64_t>() + static_cast<std::int64_t>(i) * width, end - begin + 2, 1);
    const auto stream =
        kMasks | static_cast<std::uint64_t>(epoch) << 32 | static_cast<std::uint64_t>(rows[i]);
    mask_row(source, ids + 1, labels + 1, end - begin, {source.seed, stream});
    batch.tokens += end - begin + 2;
    batch.targets +=
        std::count_if(labels, labels + width, [](std::int64_t label) { return label != kIgnoredLabel; });
  }
  return batch;
}

// `rows` are a share of the batch `all`, which gets a target if no token of it was chosen.
TokenBatch masked_batch(const MaskedRows& source, std::span<const std::int64_t> rows,
                        std::span<const std::int64_t> all, std::int64_t epoch) {
  TokenBatch batch = batch_of_masked(source, rows, epoch);
  const bool has_first = !rows.empty() && rows.front() == all.front();
  if (batch.targets == 0 && has_first && batch_of_masked(source, all, epoch).targets == 0) {
    batch.labels.data<std::int64_t>()[1] = batch.ids.data<std::int64_t>()[1];
    batch.ids.data<std::int64_t>()[1] = source.mask;
    batch.targets = 1;
  }
  return batch;
}

std::int64_t required_id(std::optional<std::int64_t> id, const char* name) {
  if (id) return *id;
  throw Error(
      fmt::format("masked-lm: expected a tokenizer with a {} token, got one without (tokenizer.type = "
                  "\"wordpiece\" makes one)",
                  name));
}

MaskedRows masked_rows(std::shared_ptr<const TextCorpus> corpus, const Tokenizer& tokenizer,
                       const Recipe& recipe) {
  MaskedRows source{.corpus = std::move(corpus)};
  source.first = required_id(tokenizer.cls_id() ? tokenizer.cls_id() : tokenizer.bos_id(), "[CLS]");
  source.last = required_id(tokenizer.sep_id() ? tokenizer.sep_id() : tokenizer.eos_id(), "[SEP]");
  source.mask = required_id(tokenizer.mask_id(), "[MASK]");
  source.pad = required_id(tokenizer.pad_id(), "[PAD]");
  source.vocab_size = tokenizer.vocab_size();
  for (std::int64_t id = 0; id < source.vocab_size; ++id) source.special.push_back(tokenizer.is_special(id));
  if (recipe.task.whole_words) source.continues_word = word_continuations(tokenizer);
  source.probability = recipe.task.mask_probability;
  source.seed = static_cast<std::uint64_t>(recipe.train.seed);
  source.rows = rows_of_documents(*source.corpus, recipe.task.context - 2);
  return source;
}

std::vector<ExampleLength> lengths_of(const MaskedRows& source) {
  std::vector<ExampleLength> lengths;
  for (const auto& [begin, end] : source.rows) lengths.push_back({end - begin + 2, end - begin + 2});
  return lengths;
}

// The rows of x [B, T, D] whose label counts, and their labels.
std::pair<Tensor, std::vector<std::int64_t>> labeled(const Tensor& x, const Tensor& labels) {
  std::vector<std::int64_t> rows, kept;
  const std::vector<std::int64_t> all = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == kIgnoredLabel) continue;
    rows.push_back(static_cast<std::int64_t>(i));
    kept.push_back(all[i]);
  }
  const Tensor flat = reshape(x, {labels.numel(), x.size(2)});
  return {gather(flat, 0, Tensor::from(rows, {static_cast<std::int64_t>(rows.size())})), kept};
}

std::int64_t count_hits(const Tensor& logits, const std::vector<std::int64_t>& labels) {
  const std::vector<float> values = logits.to(DType::f32).to_vector<float>();
  const std::int64_t vocab = logits.size(1);
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* row = values.data() + static_cast<std::int64_t>(i) * vocab;
    hits += std::max_element(row, row + vocab) - row == labels[i];
  }
  return hits;
}

}  // namespace

MaskedLmTask::MaskedLmTask(const Recipe& recipe, const TrainOptions& options,
                           const std::filesystem::path& checkpoint)
    : TextTask(recipe, options) {
  const std::filesystem::path from = model_source(options, checkpoint);
  load_or_train_tokenizer(from);
  read_corpora(-1);
  Generator generator = initial_weights(recipe);
  std::unique_ptr<EncoderModel> model;
  const Config config = from.empty() ? new_model_config(recipe, *tokenizer_, "{}") : load_model_config(from);
  const Config with_head =
      config.with("{\"architectures\": [\"" + class_with_head(config, "ForMaskedLM") + "\"]}");
  model =
      from.empty() ? make_as<EncoderModel>(with_head, generator) : load_encoder(from, with_head, generator);
  model_ = model.get();
  keep(std::move(model));
  check_context(recipe_, model_->max_positions());
  auto source = std::make_shared<const MaskedRows>(masked_rows(train_, *tokenizer_, recipe));
  begin(BatchPlan(lengths_of(*source), plan_options(recipe, options)),
        [source](const BatchPlan::Rows& batch) {
          return masked_batch(*source, batch.rows, batch.all, batch.position.epoch);
        });
}

SummedLoss MaskedLmTask::next_loss(Context& context) { return loss_of_next(*model_, context); }

Evaluation MaskedLmTask::evaluate(const TextCorpus& corpus) const {
  const NoGradients off;
  const MaskedRows source = masked_rows(std::make_shared<const TextCorpus>(corpus), *tokenizer_, recipe_);
  double hits = 0, targets = 0;
  Evaluation evaluation{
      .loss = mean_loss(
          lengths_of(source), recipe_, options_, [&](const std::vector<std::int64_t>& chosen) -> SummedLoss {
            const TokenBatch batch = masked_batch(source, chosen, chosen, kFixedMasks);
            Context context;
            const auto [rows, labels] =
                labeled(model_->encode({batch.ids, batch.mask}, context), batch.labels);
            const Tensor logits = model_->predict(rows, {}, context);
            const auto count = static_cast<std::int64_t>(labels.size());
            hits += static_cast<double>(count_hits(logits, labels));
            targets += static_cast<double>(batch.targets);
            return {cross_entropy(logits, Tensor::from(labels, {count}), {.reduction = Reduction::sum}),
                    batch.targets};
          })};
  const std::vector<double> total = processes_of(options_).sum({hits, targets});
  evaluation.metrics = {{"accuracy", 100.0 * total[0] / total[1]}};
  return evaluation;
}

}  // namespace heed
