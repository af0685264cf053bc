// Prompts of a file: texts with what they should predict, one a row.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/metric_options.h"

namespace heed::cli {

struct Prompt {
  std::string where;  // FILE:LINE
  std::string clean;
  std::optional<std::string> corrupted = {}, target = {}, a = {}, b = {};
};

/// Reads .jsonl (an object in each line) or .tsv and .csv (a header, then rows) with the keys or columns
/// `clean`, `corrupted`, `target`, `A` and `B`; all but `clean` may be missing or empty. Throws Error naming
/// file, line and key, and UsageError for another ending.
std::vector<Prompt> read_prompts(const std::filesystem::path& file);

/// The metric with the prompt's own tokens, A and B, in the place of --token and --other. Throws Error naming
/// the row.
LogitMetric metric_of(const Prompt& prompt, const MetricArguments& arguments, const AnalyzedModel& model,
                      MetricKind without);

}  // namespace heed::cli
