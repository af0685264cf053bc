// report.html: a run on one page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/train/data_summary.h"
#include "heed/train/training_task.h"
#include "train/run/run_log.h"

namespace heed {

struct RunReport {
  std::string title;
  std::optional<Evaluation> development, test;  ///< of the final model
  std::vector<std::string> labels;
  DataSummary data;
  std::vector<Prediction> samples;
};

/// A page without scripts that needs no other file: scores, curves, the data; of single labels which are
/// taken for which, and how often a probability is right; the worst errors.
std::string run_report_html(const RunReport& report, const RunLog& log);

}  // namespace heed
