// heed train --maps: attention of chosen texts while a model learns, as a page with a slider over the steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "heed/train/training_task.h"

namespace heed::cli {

/// Keeps what was recorded in OUTPUT/maps/STEP.json, and writes OUTPUT/maps.html of all of it after each
/// step. Threads: one at a time.
class TrainingMaps {
 public:
  /// Reads the texts: one a line; for encoder-decoders a source, a tab and a target. Throws Error naming the
  /// file, unless there are 1 to 8.
  TrainingMaps(const std::filesystem::path& texts, std::filesystem::path output, const Globals& globals);

  /// Records the model as it is now, and forgets later steps (of a run that was resumed).
  void record(std::int64_t step, const TrainingTask& task);
  /// The loss of the development set at a step, which the page shows.
  void set_loss(std::int64_t step, double loss) { losses_[step] = loss; }

 private:
  struct Text {
    std::string source;
    std::optional<std::string> target;
  };
  void write_page() const;

  std::filesystem::path output_;
  const Globals& globals_;
  std::vector<Text> texts_;
  std::map<std::int64_t, double> losses_;
};

}  // namespace heed::cli
