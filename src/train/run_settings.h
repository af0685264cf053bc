// What a recipe sets of a run: its length, its optimizer, its random numbers, and what its evaluations rank.
#pragma once

#include <cstdint>
#include <string>

#include "heed/distributed/communicator.h"
#include "heed/train/adamw.h"
#include "heed/train/recipe.h"
#include "heed/train/training_task.h"

namespace heed {

/// Each process drops other elements: their rows are different ones.
std::uint64_t dropout_seed(const Recipe& recipe, const Communicator& world);

AdamWOptions adamw_options(const Recipe& recipe);

/// The number of steps of the whole run: as given, or as the epochs need.
std::int64_t total_steps(const Recipe& recipe, const TrainingTask& task);

/// What ranks an evaluation by a metric, or by `loss`: larger is better.
double score_of(const Evaluation& evaluation, const std::string& metric);

/// Throws Error unless eval.metric is one that the task's evaluations give.
void check_metric(const Recipe& recipe, const TrainingTask& task);

}  // namespace heed
