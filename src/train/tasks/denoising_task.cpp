// The denoising task: rows of texts, with new noise in every epoch.
#include <fmt/format.h>

#include <algorithm>

#include "data/denoising.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "train/tasks/language_modeling.h"

namespace heed {
namespace {

constexpr std::uint64_t kNoise = std::uint64_t{1}
                                 << 62;  // first random stream; those of the plan are smaller
constexpr std::int64_t kFixedNoise = std::int64_t{1} << 29;  // the "epoch" of evaluations

// Everything that makes a row, owned by the reader's thread.
struct NoisyRows {
  std::shared_ptr<const TextCorpus> corpus;
  std::vector<TextRow> rows;
  NoiseTokens tokens;
  NoiseAmount amount;
  bool spans = true;  // T5's objective; false: BART's
  bool permute = true;
  std::int64_t pad = 0;
  std::uint64_t seed = 0;

  std::int64_t framing() const { return static_cast<std::int64_t>(tokens.begin.size() + tokens.end.size()); }
  NoisePair pair(std::int64_t row, std::int64_t epoch) const {
    const auto [begin, end] = rows[static_cast<std::size_t>(row)];
    const auto text =
        corpus->ids().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    Draws draws({seed, kNoise | static_cast<std::uint64_t>(epoch) << 32 | static_cast<std::uint64_t>(row)});
    return spans ? corrupt_spans(text, tokens, amount, draws)
                 : corrupt_bart(text, tokens, amount, permute, draws);
  }
};

// The most tokens of a text whose both sides have at most `context`.
std::int64_t longest_text(const NoisyRows& source, std::int64_t context) {
  if (!source.spans) return context - source.framing();
  const auto fits = [&](std::int64_t length) {
    const auto [input, target] = corrupted_lengths(length, source.tokens, source.amount);
    return std::max(input, target) <= context;
  };
  std::int64_t length = 1;
  while (fits(length + 1)) ++length;
  return length;
}

void check_tokens(const NoisyRows& source, std::int64_t longest, const Recipe& recipe) {
  if (longest < 2)
    throw Error(fmt::format("recipe: task.context: expected room for two tokens of text, got {}",
                            recipe.task.context));
  if (!source.spans && source.tokens.mask < 0)
    throw Error(
        "denoising: expected a tokenizer with a mask token for task.objective = \"bart\", got one without "
        "(tokenizer.special_tokens = \"bart\" makes one)");
  const auto sentinels = static_cast<std::int64_t>(source.tokens.sentinels.size());
  if (!source.spans || span_counts(longest, source.amount).spans <= sentinels) return;
  if (sentinels == 0)
    throw Error(
        "denoising: expected a tokenizer with sentinels <extra_id_0>, <extra_id_1>, ... for task.objective = "
        "\"spans\", got one without (tokenizer.special_tokens = \"t5\" makes them)");
  throw Error(
      fmt::format("recipe: task.context: expected at most {} spans in a row, as many as the tokenizer has "
                  "sentinels, got {} (lower task.context or raise task.span_length)",
                  sentinels, span_counts(longest, source.amount).spans));
}

NoisyRows noisy_rows(std::shared_ptr<const TextCorpus> corpus, const Tokenizer& tokenizer, std::int64_t pad,
                     const Recipe& recipe) {
  NoisyRows source{.corpus = std::move(corpus), .rows = {}, .tokens = noise_tokens(tokenizer), .amount = {}};
  source.amount = {recipe.task.noise_density, recipe.task.span_length};
  source.spans = recipe.task.objective == "spans";
  source.permute = recipe.task.permute_sentences;
  source.pad = pad;
  source.seed = static_cast<std::uint64_t>(recipe.train.seed);
  const std::int64_t longest = longest_text(source, recipe.task.context);
  check_tokens(source, longest, recipe);
  source.rows = rows_of_documents(*source.corpus, longest);
  std::erase_if(source.rows, [](const TextRow& row) { return row.second - row.first < 2; });
  if (source.rows.empty()) throw Error("denoising: expected a text of two tokens, got none");
  return source;
}

std::vector<ExampleLength> noisy_lengths(const NoisyRows& source) {
  std::vector<ExampleLength> lengths;
  for (const auto& [begin, end] : source.rows) {
    const std::int64_t whole = end - begin + source.framing();
    const auto [input, target] =
        source.spans ? corrupted_lengths(end - begin, source.tokens, source.amount) : std::pair(whole, whole);
    lengths.push_back({std::max(input, target), input + target});
  }
  return lengths;
}

// Rows of different lengths in a tensor, padded on the right.
Tensor padded(const std::vector<const std::vector<std::int64_t>*>& rows, std::int64_t pad) {
  std::size_t width = 0;
  for (const auto* row : rows) width = std::max(width, row->size());
  const Shape shape{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(width)};
  Tensor ids = Tensor::full(shape, static_cast<double>(pad), DType::i64);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy(rows[i]->begin(), rows[i]->end(), ids.data<std::int64_t>() + i * width);
  return ids;
}

TokenBatch noisy_batch(const NoisyRows& source, std::span<const std::int64_t> rows, std::int64_t epoch) {
  std::vector<NoisePair> pairs;
  for (const std::int64_t row : rows) pairs.push_back(source.pair(row, epoch));
  std::vector<const std::vector<std::int64_t>*> inputs, targets;
  for (const NoisePair& pair : pairs) {
    inputs.push_back(&pair.input);
    targets.push_back(&pair.target);
  }
  TokenBatch batch{padded(inputs, source.pad), {}, padded(targets, kIgnoredLabel), 0};
  batch.mask = Tensor::zeros(batch.ids.shape(), DType::i64);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    std::fill_n(batch.mask.data<std::int64_t>() + static_cast<std::int64_t>(i) * batch.ids.size(1),
                pairs[i].input.size(), 1);
    batch.targets += std::ssize(pairs[i].target);
    batch.tokens += std::ssize(pairs[i].input) + std::ssize(pairs[i].target);
  }
  return batch;
}

}  // namespace

DenoisingTask::DenoisingTask(const Recipe& recipe, const TrainOptions& options,
                             const std::filesystem::path& checkpoint)
    : TextTask(recipe, options) {
  const std::filesystem::path from = model_source(options, checkpoint);
  load_or_train_tokenizer(from);
  std::unique_ptr<EncoderDecoderModel> model = encoder_decoder_for(recipe, *tokenizer_, from);
  model_ = model.get();
  keep(std::move(model));
  check_context(recipe_, model_->max_positions());
  read_corpora(-1);
  auto source = std::make_shared<const NoisyRows>(noisy_rows(train_, *tokenizer_, model_->pad_id(), recipe));
  begin(BatchPlan(noisy_lengths(*source), plan_options(recipe, options)),
        [source](const BatchPlan::Rows& batch) {
          return noisy_batch(*source, batch.rows, batch.position.epoch);
        });
}

SummedLoss DenoisingTask::next_loss(Context& context) { return loss_of_next(*model_, context); }

Evaluation DenoisingTask::evaluate(const TextCorpus& corpus) const {
  const NoGradients off;
  const NoisyRows source =
      noisy_rows(std::make_shared<const TextCorpus>(corpus), *tokenizer_, model_->pad_id(), recipe_);
  const CrossEntropyOptions options{.ignore_index = kIgnoredLabel, .reduction = Reduction::sum};
  return {
      .loss = mean_loss(
          noisy_lengths(source), recipe_, options_, [&](const std::vector<std::int64_t>& rows) -> SummedLoss {
            const TokenBatch batch = noisy_batch(source, rows, kFixedNoise);
            Context context;
            return {model_->loss({batch.ids, batch.mask}, batch.labels, options, context), batch.targets};
          })};
}

}  // namespace heed
