// Means over inputs, and parts of the stream as records of a report.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "heed/analyses/analyzed.h"
#include "heed/inspect/metric.h"
#include "heed/inspect/stream_attribution.h"
#include "heed/plot/report.h"

namespace heed {

/// The mean of a number of each result, with its standard error; of one result the number itself.
template <class Result, class Number>
Estimate estimate(const std::vector<Result>& results, const Number& number) {
  std::vector<double> values;
  values.reserve(results.size());
  for (const Result& result : results) values.push_back(number(result));
  return values.size() == 1 ? Estimate{values.front(), 0} : estimate_of(values);
}

/// Whether results are means: of several inputs, or of the rows of a file of prompts.
inline bool are_means(std::span<const AnalyzedInput> inputs) {
  return inputs.size() > 1 || !inputs.front().where.empty();
}

/// Adds a record of a part: its name, layer and head, which are null where it has none.
inline ReportValue& add_part(ReportValue& records, const StreamPart& part) {
  const auto number = [](std::int64_t n) { return n < 0 ? std::optional<std::int64_t>() : n; };
  return records.push({})
      .add("name", part.name)
      .add("layer", number(part.layer))
      .add("head", number(part.head));
}

}  // namespace heed
