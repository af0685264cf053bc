// What patching of sites and of paths shares: which run gets values of the other, and effects as cells.
#pragma once

#include <string>
#include <vector>

#include "heed/analyses/analyses.h"

namespace heed {

/// Two inputs of the same shapes, and what is measured of both.
struct PatchedPair {
  TensorMap clean, corrupted;
  LogitMetric metric;
};

struct PatchRun {
  const AnalyzedModel& model;
  const PatchReportOptions& options;
  std::vector<PatchedPair> pairs = {};
  std::vector<std::string> tokens = {};  // of the last pair

  /// Of sites the corrupted run gets values, of paths the clean one, unless the options say it.
  bool into_clean() const { return options.into_clean.value_or(!options.path.empty()); }
  const TensorMap& base(std::size_t i) const { return into_clean() ? pairs[i].clean : pairs[i].corrupted; }
  const TensorMap& donor(std::size_t i) const { return into_clean() ? pairs[i].corrupted : pairs[i].clean; }
  /// The metrics of the run whose values are taken and of the one that gets them, and what 0 and 1 mean.
  std::string legend(double donor, double base) const;
  /// Says where numbers are not finite, or the metric of the clean text is not the better one.
  void check(Report& report, double donor, double base) const;
};

/// One cell of all pairs. Its mean is weighted by the differences of the two runs, which makes it the ratio
/// of the mean change to the mean difference.
class PatchedEffects {
 public:
  void add(double effect, double difference);
  Estimate estimate() const { return estimate_of(effects_, weights_); }
  ReportCell cell(const std::string& name) const;

 private:
  std::vector<double> effects_, weights_;
};

/// Path patching: the effects of all senders.
Report patch_path_report(const PatchRun& run, const std::string& stack, const std::string& part);

}  // namespace heed
