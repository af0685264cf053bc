// What is known of the data of a training run before its first step: sizes, lengths, labels, repetitions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/plot/report.h"

namespace HEED_API heed {

/// The examples of one set.
struct SetSummary {
  std::string name;           ///< training, development or test
  std::int64_t examples = 0;  ///< those that are left out included
  /// The length that half of the examples do not exceed, 90 %, 99 %, and all of them.
  double median = 0, most_90 = 0, most_99 = 0, longest = 0;
  std::int64_t truncated = 0;    ///< longer ones, of which the end is not read
  std::int64_t left_out = 0;     ///< which cannot be learned or are too long
  std::int64_t repeated = 0;     ///< equal to an earlier one of the set
  std::int64_t in_training = 0;  ///< of a held-out set: equal to one of the training set
  std::int64_t replaced = 0;     ///< with U+FFFD, which stands for bytes that were lost in a conversion
  std::map<std::string, std::int64_t> labels{};
};

struct DataSummary {
  std::string examples = "texts";  ///< what they are, in the plural
  std::string unit = "tokens";     ///< of their lengths; empty: all have one length
  std::optional<double> most{};    ///< of the lengths that the model reads
  std::vector<SetSummary> sets{};  ///< none: nothing is known
};

/// Tables of the sets and of their labels, and the same as JSON.
Report data_report(const DataSummary& summary);

/// Lines for the start of a run: the lengths of the training set, and what is not learned of each set.
std::vector<std::string> data_lines(const DataSummary& summary);

}  // namespace heed
