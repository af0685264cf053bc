// What the processes of a run must have in common, and what they report together.
#pragma once

#include <string>
#include <vector>

#include "heed/distributed/communicator.h"
#include "heed/train/adamw.h"
#include "heed/train/training_task.h"

namespace heed {

/// Throws Error if the parameters' names or shapes, or the training data, differ between processes.
void check_same_training(Communicator& world, const TrainingTask& task);

/// Throws Error if the weights differ, as processors that round differently make them.
void check_same_weights(Communicator& world, const std::vector<Parameter>& parameters);

/// Overwrites the parameters with those of the first process.
void share_weights(Communicator& world, const std::vector<Parameter>& parameters);

/// "each process: 46848 bytes of trained weights, ..."; called by all processes.
std::string memory_report(Communicator& world, const std::vector<Parameter>& parameters,
                          const AdamW& optimizer);

}  // namespace heed
