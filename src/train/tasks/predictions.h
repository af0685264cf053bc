// Predictions of several processes, and the file of them.
#pragma once

#include <string>
#include <vector>

#include "heed/distributed/communicator.h"
#include "heed/train/training_task.h"

namespace heed {

/// Those of all processes, by their numbers.
std::vector<Prediction> gather_predictions(Communicator& world, std::vector<Prediction> predictions);

/// JSON lines: text, right, predicted, probabilities (by the names of the labels) and loss, where there are
/// any.
std::string predictions_jsonl(const std::vector<Prediction>& predictions,
                              const std::vector<std::string>& labels);

}  // namespace heed
