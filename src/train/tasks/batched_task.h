// BatchedTask: a task whose examples are packed into batches by a BatchPlan and made in the background.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "data/background_reader.h"
#include "data/batch_plan.h"
#include "heed/train/train.h"
#include "heed/train/training_task.h"

namespace heed {

/// The training batches of a recipe: this process's share of them.
inline BatchPlanOptions plan_options(const Recipe& recipe, const TrainOptions& options) {
  const Communicator& world = processes_of(options);
  return {.batch_tokens = recipe.train.batch_tokens,
          .seed = static_cast<std::uint64_t>(recipe.train.seed),
          .share = world.rank(),
          .shares = world.size()};
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

 protected:
  /// Called on the reader's thread, with the rows of a batch: owns whatever it reads.
  using MakeBatch = std::function<Batch(const BatchPlan::Rows& rows)>;

  /// Begins at the first batch of `plan`.
  void begin(BatchPlan plan, MakeBatch make) {
    plan_ = std::move(plan);
    make_ = std::move(make);
    seek({});
  }
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
