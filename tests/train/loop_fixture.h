// The recipe of the tests of the training loop, and ways to run it.
#pragma once

#include <string>

#include "heed/error.h"
#include "heed/train/train.h"
#include "reference/error.h"
#include "regression.h"
#include "run_folder.h"

namespace heed {

class LoopTest : public FolderTest {
 protected:
  static Recipe recipe(std::int64_t steps) {
    Recipe r;
    r.train.steps = steps;
    r.train.lr = 1e-2;
    r.train.warmup = 5;
    r.train.accumulate = 2;
    r.train.clip_norm = 5;
    r.train.weight_decay = 0.01;
    r.eval.every = 5;
    r.checkpoint.every = 3;
    r.checkpoint.average = 3;
    return r;
  }
  static TrainResult run(Regression task, const Recipe& r, const TrainOptions& options) {
    return train_loop(task, r, options);
  }
  static std::string run_error(Regression task, const Recipe& r, const TrainOptions& options) {
    return error_of([&] { train_loop(task, r, options); });
  }
};

}  // namespace heed
