// DataCounts: counts the examples of a task's sets while they are prepared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/train/data_summary.h"

namespace heed {

/// Threads: one at a time.
class DataCounts {
 public:
  DataCounts(std::string examples, std::string unit, std::optional<double> most)
      : examples_(std::move(examples)), unit_(std::move(unit)), most_(most) {}
  /// The following examples are those of this set.
  void begin(std::string name) { sets_.emplace_back().summary.name = std::move(name); }
  /// An example; those with the same key are equal.
  void add(std::uint64_t key) { sets_.back().keys.push_back(key); }
  void add_length(double length) { sets_.back().lengths.push_back(static_cast<float>(length)); }
  void add_label(const std::string& label) { ++set().labels[label]; }
  /// The set that has begun, for what else is counted.
  SetSummary& set() { return sets_.back().summary; }
  /// Called once.
  DataSummary finish();

 private:
  struct Set {
    SetSummary summary;
    std::vector<std::uint64_t> keys;
    std::vector<float> lengths;
  };
  std::string examples_, unit_;
  std::optional<double> most_;
  std::vector<Set> sets_;
};

}  // namespace heed
