#include <algorithm>

#include "heed/data/batch.h"

namespace heed {
namespace {

void fill_row(std::span<const std::int32_t> ids, std::int64_t* out) {
  std::copy(ids.begin(), ids.end(), out);
}

std::vector<ExampleLength> lengths_of(const TokenizedCorpus& corpus) {
  std::vector<ExampleLength> lengths;
  lengths.reserve(static_cast<std::size_t>(corpus.size()));
  for (std::int64_t row = 0; row < corpus.size(); ++row) {
    const std::int64_t source = corpus.source_length(row), target = corpus.target_length(row);
    lengths.push_back({std::max(source, target), source + target});
  }
  return lengths;
}

}  // namespace

Batcher::Batcher(const TokenizedCorpus& corpus, const BatcherOptions& options)
    : corpus_(&corpus),
      pad_id_(options.pad_id),
      plan_(lengths_of(corpus), {.batch_tokens = options.batch_tokens,
                                 .seed = options.seed,
                                 .shuffle = options.shuffle,
                                 .share = options.share,
                                 .shares = options.shares}) {}

Batch Batcher::next() {
  BatchPlan::Rows planned = plan_.next();
  Batch batch = build(std::move(planned.rows));
  batch.next = planned.next;
  return batch;
}

Batch Batcher::build(std::vector<std::int64_t> chosen) const {
  Batch batch;
  batch.rows = std::move(chosen);
  std::int64_t source_length = 0, target_length = 0;
  for (const std::int64_t row : batch.rows) {
    source_length = std::max(source_length, corpus_->source_length(row));
    target_length = std::max(target_length, corpus_->target_length(row));
    batch.source_tokens += corpus_->source_length(row);
    batch.target_tokens += corpus_->target_length(row);
  }
  const auto rows = static_cast<std::int64_t>(batch.rows.size());
  batch.source_ids = Tensor::full({rows, source_length}, static_cast<double>(pad_id_), DType::i64);
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
