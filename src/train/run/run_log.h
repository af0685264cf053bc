// RunLog: log.jsonl of a run, with one line per step and per evaluation, and the chart of it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/plot/chart.h"
#include "heed/train/training_task.h"

namespace heed {

/// What a step of the first process exchanged with the others.
struct CommunicationRecord {
  std::int64_t bytes = 0;  ///< sent
  double seconds = 0;      ///< during which numbers were exchanged
  double waited = 0;       ///< of these: what the step waited for after its last backward pass
};

struct StepRecord {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::int64_t targets = 0;
  double per_second = 0;  ///< SummedLoss::read
  double seconds = 0;
  std::optional<CommunicationRecord> communication{};  ///< of several processes
  std::vector<Metric> metrics{};                       ///< TrainingTask::step_metrics
};

class RunLog {
 public:
  /// Opens `file` and keeps only the lines of steps up to `last_step`. Drops a line truncated by a crash.
  RunLog(const std::filesystem::path& file, std::int64_t last_step);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// The first step that lacks a line, of those that were there before.
  std::optional<std::int64_t> first_missing() const { return first_missing_; }
  /// `unit` names the targets: "tokens" gives the members tokens and tokens_per_second.
  void add(const StepRecord& record, const std::string& unit);
  /// `final_model`: the evaluation is of the saved final model.
  void add(std::int64_t step, const Evaluation& evaluation, bool best, bool final_model = false);
  /// The scores of the final model on the test set.
  void add_test(std::int64_t step, const Evaluation& evaluation);
  /// Writes the log as a table: a row for each line, a column for each member.
  void write_csv(const std::filesystem::path& file) const;
  /// Syncs all lines to disk.
  void sync();
  /// Draws training and development loss over steps, and below them the metrics of the evaluations.
  std::string svg(const std::string& title) const;
  /// For a page: the losses, with a smoothed one; the metrics of evaluations; the learning rate.
  std::vector<LineChart> charts() const;

 private:
  struct Points {
    std::vector<double> x, y;
  };
  void keep(std::int64_t last_step);
  void remember(const std::string& line, const std::string& where);
  void append(const std::string& line);

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::optional<std::int64_t> first_missing_;
  std::vector<std::string> members_;  // of all lines, as they first appeared
  Points training_, rates_;
  Points development_;
  std::map<std::string, Points> metrics_;
};

}  // namespace heed
