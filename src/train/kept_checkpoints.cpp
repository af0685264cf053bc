// Selects among a run's checkpoints.
#include "train/kept_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "heed/files/file.h"

namespace heed {

bool KeptCheckpoints::is_ranked(std::int64_t step) const {
  return std::any_of(state_.ranked.begin(), state_.ranked.end(),
                     [&](const RankedStep& r) { return r.step == step; });
}

std::vector<std::int64_t> KeptCheckpoints::ranked_steps() const {
  std::vector<std::int64_t> steps;
  for (const RankedStep& r : state_.ranked) steps.push_back(r.step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

// Returns the steps that count as the last ones. A checkpoint that was written because the run was stopped
// does not count; otherwise the final model would differ from that of an uninterrupted run.
std::vector<std::int64_t> KeptCheckpoints::regular_steps(std::int64_t last_saved) const {
  std::vector<std::int64_t> steps = checkpoint_steps(run_);
  std::erase_if(steps, [&](std::int64_t s) {
    return s == 0 || s > state_.step || (!is_scheduled(s) && s != last_saved);
  });
  return steps;
}

void KeptCheckpoints::prune(std::int64_t last_saved) const {
  const bool last = recipe_.average_of == "last" || state_.ranked.empty();  // as in final_steps()
  const auto wanted = static_cast<std::size_t>(last ? std::max(recipe_.keep, recipe_.average) : recipe_.keep);
  std::vector<std::int64_t> kept = regular_steps(last_saved);
  if (kept.size() > wanted) kept.erase(kept.begin(), kept.end() - static_cast<std::ptrdiff_t>(wanted));
  for (const std::int64_t s : checkpoint_steps(run_)) {
    const bool among_last = std::find(kept.begin(), kept.end(), s) != kept.end();
    if (!among_last && !is_ranked(s) && s != state_.step) remove_directory(checkpoint_path(run_, s));
  }
}

std::vector<std::int64_t> KeptCheckpoints::final_steps() const {
  if (recipe_.average_of == "best" && !state_.ranked.empty()) return ranked_steps();
  // The last step and the scheduled ones before it. Based on the schedule because some checkpoints may be
  // missing.
  std::vector<std::int64_t> steps;
  for (std::int64_t s = state_.step; s > 0 && std::ssize(steps) < recipe_.average;
       s = (s - 1) / recipe_.every * recipe_.every) {
    steps.insert(steps.begin(), s);
  }
  return steps;
}

std::vector<std::int64_t> KeptCheckpoints::not_found(std::vector<std::int64_t> steps) const {
  const std::vector<std::int64_t> there = checkpoint_steps(run_);
  std::erase_if(steps, [&](std::int64_t s) { return std::binary_search(there.begin(), there.end(), s); });
  return steps;
}

void KeptCheckpoints::require(const std::vector<std::int64_t>& steps) const {
  const std::vector<std::int64_t> lost = not_found(steps);
  if (lost.empty()) return;
  throw Error(
      fmt::format("{}: not found, though the final model is the mean of the checkpoints {} (bring it "
                  "back, or go on with --resume and another checkpoint.average or average_of)",
                  checkpoint_path(run_, lost.front()).string(), fmt::join(steps, ", ")));
}

}  // namespace heed
