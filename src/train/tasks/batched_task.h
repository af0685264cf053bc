// BatchedTask: a task whose examples are packed into batches by a BatchPlan and made in the background.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/background_reader.h"
#include "data/batch_plan.h"
#include "heed/train/train.h"
#include "heed/train/training_task.h"
#include "train/tasks/data_counts.h"

namespace heed {

/// The training batches of a recipe: this process's share of them.
inline BatchPlanOptions plan_options(const Recipe& recipe, const TrainOptions& options) {
  const Communicator& world = processes_of(options);
  return {.batch_tokens = recipe.train.batch_tokens,
          .seed = static_cast<std::uint64_t>(recipe.train.seed),
          .share = world.rank(),
          .shares = world.size()};
}

/// Calls `handle(rows)` for this process's batches of an evaluation: all rows, in order of length.
template <class Handle>
void for_each_batch(std::vector<ExampleLength> lengths, const Recipe& recipe, const TrainOptions& options,
                    const Handle& handle) {
  BatchPlan plan(std::move(lengths), {.batch_tokens = recipe.train.batch_tokens, .shuffle = false});
  const Communicator& world = processes_of(options);
  for (std::int64_t i = 0, count = plan.batches_in_epoch(); i < count; ++i) {
    const BatchPlan::Rows planned = plan.next();
    if (i % world.size() == world.rank()) handle(planned.rows);
  }
}

/// The mean loss of these batches, by what `loss_of(rows)` gives for each, of all processes together.
template <class LossOf>
double mean_loss(std::vector<ExampleLength> lengths, const Recipe& recipe, const TrainOptions& options,
                 const LossOf& loss_of) {
  double sum = 0, weight = 0;
  for_each_batch(std::move(lengths), recipe, options, [&](const std::vector<std::int64_t>& rows) {
    const SummedLoss loss = loss_of(rows);
    sum += loss.sum.item();
    weight += loss.weight.value_or(static_cast<double>(loss.tokens));
  });
  const std::vector<double> total = processes_of(options).sum({sum, weight});
  return total[0] / total[1];
}

template <class Batch>
class BatchedTask : public TrainingTask {
 public:
  BatchPosition position() const override { return position_; }
  void seek(const BatchPosition& position) override {
    BatchPlan plan = *plan_;
    plan.seek(position);
    position_ = position;
    reader_.reset();
    reader_ = std::make_unique<BackgroundReader<Planned>>([plan = std::move(plan), make = make_]() mutable {
      const BatchPlan::Rows rows = plan.next();
      return Planned{make(rows), rows.next};
    });
  }
  std::int64_t batches_per_epoch() const override { return plan_->batches_in_epoch(); }
  DataSummary data() const override { return data_; }

 protected:
  /// Called on the reader's thread, with the rows of a batch: owns whatever it reads.
  using MakeBatch = std::function<Batch(const BatchPlan::Rows& rows)>;

  /// Begins at the first batch of `plan`.
  void begin(BatchPlan plan, MakeBatch make) {
    plan_ = std::move(plan);
    make_ = std::move(make);
    seek({});
  }
  DataSummary data_;

  Batch next_batch() {
    Planned planned = reader_->next();
    position_ = planned.next;
    return std::move(planned.batch);
  }

 private:
  struct Planned {
    Batch batch;
    BatchPosition next;
  };
  std::optional<BatchPlan> plan_;  // at its first batch
  MakeBatch make_;
  BatchPosition position_;
  std::unique_ptr<BackgroundReader<Planned>> reader_;
};

}  // namespace heed
