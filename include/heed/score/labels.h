// How well predicted labels agree with the right ones: accuracy, precision, recall and F1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heed {

struct LabelStatistics {
  std::int64_t right = 0;      ///< predicted, and right
  std::int64_t predicted = 0;  ///< how often it was predicted
  std::int64_t support = 0;    ///< how often it is the right one
  double precision = 0;        ///< right / predicted, 0 where that is 0
  double recall = 0;           ///< right / support
  double f1 = 0;               ///< 2 right / (predicted + support)
};

struct LabelReport {
  double accuracy = 0;
  double macro_f1 = 0;     ///< mean of F1 over the labels that were predicted or right at least once
  double weighted_f1 = 0;  ///< mean of F1 weighted by support
  std::vector<LabelStatistics> labels;
};

/// Compares labels 0 .. count - 1. Throws Error when the lists differ in length, are empty, or hold others.
LabelReport label_report(std::span<const std::size_t> predicted, std::span<const std::size_t> right,
                         std::size_t count);

}  // namespace heed
