// Tokenizes a corpus and makes batches of its rows.
#include "heed/data/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/stop_scope.h"
#include "data/batch_plan.h"
#include "files/spilled_array.h"
#include "heed/threads.h"

namespace heed {

namespace {

struct Encoded {
  std::vector<std::int32_t> source;
  std::vector<std::int32_t> target;
};

/// Texts encoded at a time: enough for all threads, but little memory compared with the ids.
constexpr std::int64_t kChunk = 8192;

std::optional<SkipReason> reject(const Encoded& pair, const TokenLimits& limits) {
  const auto source = static_cast<std::int64_t>(pair.source.size());
  const auto target = static_cast<std::int64_t>(pair.target.size());
  if (source == 0 || target == 0) return SkipReason::empty_side;
  if (limits.max_source_tokens > 0 && source > limits.max_source_tokens) return SkipReason::too_many_tokens;
  if (limits.max_target_tokens > 0 && target > limits.max_target_tokens) return SkipReason::too_many_tokens;
  const auto shorter = static_cast<double>(std::min(source, target));
  const auto longer = static_cast<double>(std::max(source, target));
  if (limits.max_ratio > 0 && longer > limits.max_ratio * shorter) return SkipReason::token_ratio;
  return std::nullopt;
}

void check_limits(const TokenLimits& limits) {
  if (limits.max_source_tokens < 0 || limits.max_target_tokens < 0) {
    throw Error(fmt::format("token limits: expected sizes >= 0, got {} and {} (0 means no limit)",
                            limits.max_source_tokens, limits.max_target_tokens));
  }
  if (!(limits.max_ratio == 0 || limits.max_ratio >= 1)) {
    throw Error(fmt::format("token limits: expected max_ratio >= 1 or 0, got {} (0 means no limit)",
                            limits.max_ratio));
  }
}

}  // namespace

struct TokenizedCorpus::Data {
  struct Row {
    std::uint64_t begin;
    std::uint64_t middle;  // end of the source, beginning of the target
    std::uint64_t end;
  };
  SpilledArray<std::int32_t> ids;
  SpilledArray<Row> rows;

  const Row& at(std::int64_t row) const {
    HEED_ASSERT(row >= 0 && static_cast<std::size_t>(row) < rows.size(), "row outside the corpus");
    return rows.view()[static_cast<std::size_t>(row)];
  }
};

TokenizedCorpus::TokenizedCorpus(const std::filesystem::path& folder)
    : data_(new Data{SpilledArray<std::int32_t>(folder), SpilledArray<Data::Row>(folder)}) {}

std::int64_t TokenizedCorpus::size() const { return static_cast<std::int64_t>(data_->rows.size()); }

std::span<const std::int32_t> TokenizedCorpus::source(std::int64_t row) const {
  const Data::Row& r = data_->at(row);
  return data_->ids.view().subspan(r.begin, r.middle - r.begin);
}

std::span<const std::int32_t> TokenizedCorpus::target(std::int64_t row) const {
  const Data::Row& r = data_->at(row);
  return data_->ids.view().subspan(r.middle, r.end - r.middle);
}

void TokenizedCorpus::add(std::span<const std::int32_t> source, std::span<const std::int32_t> target) {
  SpilledArray<std::int32_t>& ids = data_->ids;
  const std::uint64_t begin = ids.size();
  ids.append(source);
  ids.append(target);
  data_->rows.push_back({begin, begin + source.size(), ids.size()});
}

void TokenizedCorpus::finish() {
  data_->ids.finish();
  data_->rows.finish();
}

TokenizedCorpus tokenize_corpus(const ParallelCorpus& corpus, std::span<const std::int64_t> rows,
                                const TextEncoder& encode_source, const TextEncoder& encode_target,
                                const TokenLimits& limits, DataReport& report,
                                const std::filesystem::path& folder) {
  check_limits(limits);
  TokenizedCorpus tokenized(folder);
  const auto total = static_cast<std::int64_t>(rows.size());
  std::vector<Encoded> chunk;
  for (std::int64_t first = 0; first < total; first += kChunk) {
    throw_if_stopped();
    const auto count = std::min(kChunk, total - first);
    const auto chunk_rows = rows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    chunk.assign(chunk_rows.size(), {});
    parallel_for(count, 64, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        chunk[i] = {encode_source(corpus.source(chunk_rows[i])), encode_target(corpus.target(chunk_rows[i]))};
      }
    });
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (const auto reason = reject(chunk[i], limits)) {
        report.skip(*reason, corpus.line(chunk_rows[i]));
        --report.kept;
      } else {
        tokenized.add(chunk[i].source, chunk[i].target);
      }
    }
  }
  if (tokenized.size() == 0) {
    throw Error(fmt::format("tokenized corpus: no usable pair (of {})", report.summary()));
  }
  tokenized.finish();
  return tokenized;
}

namespace {

void fill_row(std::span<const std::int32_t> ids, std::int64_t* out) {
  std::copy(ids.begin(), ids.end(), out);
}

}  // namespace

std::vector<ExampleLength> lengths_of(const TokenizedCorpus& corpus) {
  std::vector<ExampleLength> lengths;
  lengths.reserve(static_cast<std::size_t>(corpus.size()));
  for (std::int64_t row = 0; row < corpus.size(); ++row) {
    const std::int64_t source = corpus.source_length(row), target = corpus.target_length(row);
    lengths.push_back({std::max(source, target), source + target});
  }
  return lengths;
}

Batch make_batch(const TokenizedCorpus& corpus, const std::vector<std::int64_t>& rows, std::int64_t pad_id) {
  Batch batch;
  std::int64_t source_length = 0, target_length = 0;
  for (const std::int64_t row : rows) {
    source_length = std::max(source_length, corpus.source_length(row));
    target_length = std::max(target_length, corpus.target_length(row));
    batch.source_tokens += corpus.source_length(row);
    batch.target_tokens += corpus.target_length(row);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  batch.source_ids = Tensor::full({count, source_length}, static_cast<double>(pad_id), DType::i64);
  batch.source_mask = Tensor::zeros({count, source_length}, DType::i64);
  batch.labels = Tensor::full({count, target_length}, static_cast<double>(kIgnoredLabel), DType::i64);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    const auto source = corpus.source(row);
    const auto target = corpus.target(row);
    fill_row(source, batch.source_ids.data<std::int64_t>() + i * source_length);
    std::fill_n(batch.source_mask.data<std::int64_t>() + i * source_length, source.size(), 1);
    fill_row(target, batch.labels.data<std::int64_t>() + i * target_length);
  }
  return batch;
}

}  // namespace heed
