// The order in which a training run visits its examples: shuffled, sorted by length and packed into batches
// with about the same number of tokens. It depends only on (lengths, seed, epoch), so that a run can resume
// at any batch.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/data/batch.h"

namespace heed {

struct BatchPlanOptions {
  std::int64_t batch_tokens = 4096;  ///< rows * longest row of a batch is at most this
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< false: by length, the same in every epoch
  /// Of `shares` processes, number `share` gets every shares-th row of each batch: rows of all lengths, and
  /// none if the batch has too few.
  int share = 0;
  int shares = 1;
};

/// What rows of one batch must not have in common: a text of either row's `own` in the other's `own` or
/// `others`.
struct RowTexts {
  std::vector<std::uint64_t> own;
  std::vector<std::uint64_t> others;
};

/// The length of an example in tokens: `longest` is what its row takes in a batch; examples of equal
/// `longest` are sorted by `total`.
struct ExampleLength {
  std::int64_t longest = 0;
  std::int64_t total = 0;
};

/// Those of the pairs: a row takes the longer side.
std::vector<ExampleLength> lengths_of(const TokenizedCorpus& corpus);

/// An endless sequence of batches of row numbers. Every epoch contains every row exactly once.
/// Threads: one at a time.
class BatchPlan {
 public:
  /// Throws Error if there are no rows, if an option is out of range, or if a row has more than batch_tokens
  /// tokens.
  BatchPlan(std::vector<ExampleLength> lengths, const BatchPlanOptions& options);
  /// Batches of `batch_rows` rows in random order, whatever their lengths. A row that has a text in common
  /// with one of the batch comes in a later batch.
  BatchPlan(std::vector<RowTexts> texts, std::int64_t batch_rows, const BatchPlanOptions& options);

  struct Rows {
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> all;  ///< rows of all shares
    BatchPosition position;         ///< of this batch
    BatchPosition next;             ///< of the batch after it
  };
  /// Returns the next batch. Continues with the next epoch at the end of the current one.
  Rows next();
  /// Moves to a position, whose `batch` may equal the number of batches of that epoch. Throws Error if it is
  /// larger.
  void seek(const BatchPosition& position);
  BatchPosition position() const { return position_; }
  /// Returns the number of batches in the epoch of position().
  std::int64_t batches_in_epoch() const { return static_cast<std::int64_t>(plan_.size()); }

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };
  void plan_epoch(std::int64_t epoch);
  void plan_by_length();
  void plan_by_texts();

  std::vector<ExampleLength> lengths_;
  std::vector<RowTexts> texts_;  ///< in the place of lengths
  std::int64_t batch_rows_ = 0;
  BatchPlanOptions options_;
  BatchPosition position_;
  std::vector<std::int64_t> order_;  ///< rows of the epoch
  std::vector<Range> plan_;          ///< the epoch's batches, as ranges of order_
};

}  // namespace heed
