// The parts of heed patch: what it patches, and the cells that effects become.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/input/analysis_input.h"
#include "cli/options/metric_options.h"

namespace heed::cli {

/// Which run gets values of the other.
enum class PatchInto : std::uint8_t { usual, corrupted, clean };

struct PatchArguments {
  std::optional<std::string> clean, corrupted, target, kind, site;
  std::string path;
  std::filesystem::path prompts;
  MetricArguments metric;
  PatchInto into = PatchInto::usual;
  bool attribution = false, compare = false;
  ModelChoice model;
  TableOutput output;
};

/// Two inputs of the same shapes.
struct PatchPair {
  TensorMap clean, corrupted;
  LogitMetric metric;
};

struct PatchRun {
  const PatchArguments& arguments;
  AnalyzedModel loaded;
  std::vector<PatchPair> pairs = {};
  std::vector<std::string> tokens = {}, shown = {};  // of the last pair

  /// Of sites the corrupted run gets values, of paths the clean one, unless --into says it.
  bool into_clean() const;
  const TensorMap& base(std::size_t i) const { return into_clean() ? pairs[i].clean : pairs[i].corrupted; }
  const TensorMap& donor(std::size_t i) const { return into_clean() ? pairs[i].corrupted : pairs[i].clean; }
  /// The metrics of the run whose values are taken and of the one that gets them, and what 0 and 1 mean.
  std::string legend(double donor, double base) const;
  std::string subtitle() const;
  /// Warns of numbers that are not finite, and of a clean text for which the metric is not the better one.
  void warn_of(double donor, double base, const Globals& globals) const;
};

/// One cell of all pairs. Its mean is weighted by the differences of the two runs, which makes it the ratio
/// of the mean change to the mean difference.
class PatchedEffects {
 public:
  void add(double effect, double difference);
  Estimate estimate() const { return estimate_of(effects_, weights_); }
  HeatCell cell(const std::string& name) const;

 private:
  std::vector<double> effects_, weights_;
};

/// Path patching: prints or writes the effects of all senders.
void show_paths(const PatchRun& run, const std::string& stack, const std::string& part,
                const Globals& globals);

}  // namespace heed::cli
