#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "heed/data/batch.h"
#include "heed/random.h"

namespace heed {

namespace {

/// Fisher-Yates with Philox words: the same order on every platform, unlike std::shuffle. Taking the upper
/// half of word * count has a bias below count / 2^32.
template <class T>
void shuffle(std::vector<T>& items, const RandomStream& random) {
  for (std::size_t i = items.size(); i > 1; --i) {
    const std::uint64_t j = (static_cast<std::uint64_t>(random.word(i)) * i) >> 32;
    std::swap(items[i - 1], items[j]);
  }
}

std::int64_t longer_side(const TokenizedCorpus& corpus, std::int64_t row) {
  return std::max(corpus.source_length(row), corpus.target_length(row));
}

void check(const TokenizedCorpus& corpus, const BatcherOptions& options) {
  if (corpus.size() == 0) throw Error("batches: expected a corpus with at least one pair, got an empty one");
  for (std::int64_t row = 0; row < corpus.size(); ++row) {
    if (longer_side(corpus, row) > options.batch_tokens) {
      throw Error(
          fmt::format("batches: expected every pair to fit into batch_tokens {}, got one of {} tokens (raise "
                      "batch_tokens or limit the length)",
                      options.batch_tokens, longer_side(corpus, row)));
    }
  }
}

void fill_row(std::span<const std::int32_t> ids, std::int64_t* out) {
  std::copy(ids.begin(), ids.end(), out);
}

}  // namespace

Batcher::Batcher(const TokenizedCorpus& corpus, const BatcherOptions& options)
    : corpus_(&corpus), options_(options) {
  check(corpus, options);
  plan_epoch(0);
}

void Batcher::plan_epoch(std::int64_t epoch) {
  order_.resize(static_cast<std::size_t>(corpus_->size()));
  std::iota(order_.begin(), order_.end(), 0);
  const auto stream = static_cast<std::uint64_t>(epoch) * 2;
  if (options_.shuffle) shuffle(order_, RandomStream{options_.seed, stream});

  // A stable sort, so that pairs of equal lengths stay shuffled.
  std::stable_sort(order_.begin(), order_.end(), [this](std::int64_t a, std::int64_t b) {
    return std::pair(longer_side(*corpus_, a), corpus_->source_length(a) + corpus_->target_length(a)) <
           std::pair(longer_side(*corpus_, b), corpus_->source_length(b) + corpus_->target_length(b));
  });
  plan_.clear();
  // The rows are in ascending order of length, so the last row added is the longest of its batch.
  Range range{0, 0};
  for (std::int64_t i = 0; i < corpus_->size(); ++i) {
    const std::int64_t longest = longer_side(*corpus_, order_[static_cast<std::size_t>(i)]);
    if ((i + 1 - range.begin) * longest > options_.batch_tokens) {
      plan_.push_back(range);
      range.begin = i;
    }
    range.end = i + 1;
  }
  plan_.push_back(range);
  if (options_.shuffle) shuffle(plan_, RandomStream{options_.seed, stream + 1});
  position_ = {epoch, 0};
}

Batch Batcher::next() {
  Batch batch = build(plan_[static_cast<std::size_t>(position_.batch)]);
  ++position_.batch;
  if (position_.batch >= batches_in_epoch()) plan_epoch(position_.epoch + 1);
  batch.next = position_;
  return batch;
}

void Batcher::seek(const BatchPosition& position) {
  if (position.epoch < 0 || position.batch < 0) {
    throw Error(fmt::format("batches: expected a position >= 0, got epoch {} batch {}", position.epoch,
                            position.batch));
  }
  if (position.epoch != position_.epoch) plan_epoch(position.epoch);
  if (position.batch > batches_in_epoch()) {
    throw Error(fmt::format(
        "batches: expected a position within the {} batches of the epoch, got {} (the data or the "
        "batch size are not those of the run that is resumed)",
        batches_in_epoch(), position.batch));
  }
  position_ = position;
  if (position_.batch == batches_in_epoch()) plan_epoch(position_.epoch + 1);
}

Batch Batcher::build(const Range& range) const {
  Batch batch;
  batch.position = position_;
  batch.rows.assign(order_.begin() + range.begin, order_.begin() + range.end);
  std::int64_t source_length = 0, target_length = 0;
  for (const std::int64_t row : batch.rows) {
    source_length = std::max(source_length, corpus_->source_length(row));
    target_length = std::max(target_length, corpus_->target_length(row));
    batch.source_tokens += corpus_->source_length(row);
    batch.target_tokens += corpus_->target_length(row);
  }
  const auto rows = static_cast<std::int64_t>(batch.rows.size());
  batch.source_ids = Tensor::full({rows, source_length}, static_cast<double>(options_.pad_id), DType::i64);
  batch.source_mask = Tensor::zeros({rows, source_length}, DType::i64);
  batch.labels = Tensor::full({rows, target_length}, static_cast<double>(kIgnoredLabel), DType::i64);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = batch.rows[static_cast<std::size_t>(i)];
    const auto source = corpus_->source(row);
    const auto target = corpus_->target(row);
    fill_row(source, batch.source_ids.data<std::int64_t>() + i * source_length);
    std::fill_n(batch.source_mask.data<std::int64_t>() + i * source_length, source.size(), 1);
    fill_row(target, batch.labels.data<std::int64_t>() + i * target_length);
  }
  return batch;
}

}  // namespace heed
