// Classification metrics: accuracy, precision, recall and F1 of predicted labels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

struct LabelStatistics {
  std::int64_t correct = 0;    ///< correct predictions
  std::int64_t predicted = 0;  ///< number of predictions
  std::int64_t support = 0;    ///< number of true instances
  double precision = 0;        ///< correct / predicted; 0 if never predicted
  double recall = 0;           ///< correct / support
  double f1 = 0;               ///< 2 correct / (predicted + support)
};

struct LabelReport {
  double accuracy = 0;
  double macro_f1 = 0;     ///< mean of F1 over labels that were predicted or true at least once
  double weighted_f1 = 0;  ///< mean of F1 weighted by support
  std::vector<LabelStatistics> labels;
};

/// Compares the predicted with the gold labels, each in 0 .. count - 1. Throws Error if the lists differ in
/// length, are empty, or contain other labels.
LabelReport label_report(std::span<const std::size_t> predicted, std::span<const std::size_t> gold,
                         std::size_t count);

}  // namespace heed
