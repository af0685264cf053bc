// Rows of like lengths make a batch; their order is shuffled anew in every epoch.
#include "data/batch_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "heed/error.h"
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

void check(const std::vector<ExampleLength>& lengths, const BatchPlanOptions& options) {
  if (lengths.empty()) throw Error("batches: expected at least one example, got none");
  for (const ExampleLength& length : lengths) {
    if (length.longest > options.batch_tokens) {
      throw Error(fmt::format(
          "batches: expected every example to fit into batch_tokens {}, got one of {} tokens (raise "
          "batch_tokens or limit the length)",
          options.batch_tokens, length.longest));
    }
  }
}

}  // namespace

BatchPlan::BatchPlan(std::vector<ExampleLength> lengths, const BatchPlanOptions& options)
    : lengths_(std::move(lengths)), options_(options) {
  check(lengths_, options);
  plan_epoch(0);
}

BatchPlan::BatchPlan(std::vector<RowTexts> texts, std::int64_t batch_rows, const BatchPlanOptions& options)
    : texts_(std::move(texts)), batch_rows_(batch_rows), options_(options) {
  if (texts_.empty()) throw Error("batches: expected at least one example, got none");
  plan_epoch(0);
}

void BatchPlan::plan_epoch(std::int64_t epoch) {
  order_.resize(std::max(lengths_.size(), texts_.size()));
  std::iota(order_.begin(), order_.end(), 0);
  const auto stream = static_cast<std::uint64_t>(epoch) * 2;
  if (options_.shuffle) shuffle(order_, RandomStream{options_.seed, stream});
  plan_.clear();
  if (texts_.empty()) {
    plan_by_length();
    if (options_.shuffle) shuffle(plan_, RandomStream{options_.seed, stream + 1});
  } else {
    plan_by_texts();
  }
  position_ = {epoch, 0};
}

void BatchPlan::plan_by_texts() {
  std::vector<std::int64_t> placed, waiting;
  placed.reserve(order_.size());
  std::unordered_set<std::uint64_t> own, others;
  const auto place = [&](std::int64_t row) {
    const RowTexts& texts = texts_[static_cast<std::size_t>(row)];
    const auto taken = [&](std::uint64_t text) { return own.contains(text) || others.contains(text); };
    if (std::any_of(texts.own.begin(), texts.own.end(), taken) ||
        std::any_of(texts.others.begin(), texts.others.end(),
                    [&](std::uint64_t text) { return own.contains(text); }))
      return false;
    own.insert(texts.own.begin(), texts.own.end());
    others.insert(texts.others.begin(), texts.others.end());
    placed.push_back(row);
    return true;
  };
  for (std::size_t next = 0; placed.size() < order_.size();) {
    const std::int64_t begin = std::ssize(placed);
    const auto full = [&] { return std::ssize(placed) - begin == batch_rows_; };
    own.clear(), others.clear();
    std::erase_if(waiting, [&](std::int64_t row) { return !full() && place(row); });
    for (; !full() && next < order_.size(); ++next) {
      if (!place(order_[next])) waiting.push_back(order_[next]);
    }
    plan_.push_back({begin, std::ssize(placed)});
  }
  order_ = std::move(placed);
}

void BatchPlan::plan_by_length() {
  // A stable sort, so that rows of equal lengths stay shuffled.
  const auto length = [this](std::int64_t row) -> const ExampleLength& {
    return lengths_[static_cast<std::size_t>(row)];
  };
  std::stable_sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(length(a).longest, length(a).total) < std::pair(length(b).longest, length(b).total);
  });
  // The rows are in ascending order of length, so the last row added is the longest of its batch.
  Range range{0, 0};
  const auto count = static_cast<std::int64_t>(order_.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if ((i + 1 - range.begin) * length(order_[static_cast<std::size_t>(i)]).longest > options_.batch_tokens) {
      plan_.push_back(range);
      range.begin = i;
    }
    range.end = i + 1;
  }
  plan_.push_back(range);
}

BatchPlan::Rows BatchPlan::next() {
  const Range range = plan_[static_cast<std::size_t>(position_.batch)];
  Rows batch{{}, {order_.begin() + range.begin, order_.begin() + range.end}, position_, {}};
  for (auto i = static_cast<std::size_t>(options_.share); i < batch.all.size();
       i += static_cast<std::size_t>(options_.shares))
    batch.rows.push_back(batch.all[i]);
  ++position_.batch;
  if (position_.batch >= batches_in_epoch()) plan_epoch(position_.epoch + 1);
  batch.next = position_;
  return batch;
}

void BatchPlan::seek(const BatchPosition& position) {
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

}  // namespace heed
