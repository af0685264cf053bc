// Opens an output folder for a run.
#include "train/run/run.h"

#include <fmt/format.h>
#include <algorithm>

#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/train/checkpoint.h"

namespace heed {
namespace {

void refuse_another_run(const std::filesystem::path& output) {
  for (const char* name : {"log.jsonl", "checkpoints", "model.safetensors", "config.json"}) {
    if (std::filesystem::exists(output / name)) {
      throw Error(
          fmt::format("{}: expected a folder without a training run or model, got one with {} (--resume "
                      "goes on with the run; or choose another folder)",
                      output.string(), name));
    }
  }
}

// Returns what is wrong with a checkpoint, or an empty string.
std::string damage(const std::filesystem::path& checkpoint) {
  try {
    verify_checkpoint(checkpoint);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::filesystem::path checkpoint_to_resume(const TrainOptions& options) {
  const std::vector<std::int64_t> steps = checkpoint_steps(options.output);
  if (options.resume_from && std::find(steps.begin(), steps.end(), *options.resume_from) == steps.end()) {
    throw Error(fmt::format(
        "{}: not found as a complete checkpoint ({})",
        checkpoint_path(options.output, *options.resume_from).string(),
        steps.empty() ? "the run has none" : fmt::format("there are {}", fmt::join(steps, ", "))));
  }
  if (steps.empty()) return {};
  const std::int64_t step = options.resume_from.value_or(steps.back());
  const std::string found = damage(checkpoint_path(options.output, step));
  if (found.empty()) return checkpoint_path(options.output, step);
  for (auto older = steps.rbegin(); older != steps.rend(); ++older) {
    if (*older >= step || !damage(checkpoint_path(options.output, *older)).empty()) continue;
    throw Error(
        fmt::format("{} (checkpoint {} is whole: --resume-from {} goes on from it and removes later ones)",
                    found, *older, *older));
  }
  throw Error(found + " (no older checkpoint is whole: start again in another folder)");
}

}  // namespace

RunFolder::RunFolder(const TrainOptions& options) {
  made_.emplace(options.output);
  lock_.emplace(options.output);
  if (!options.resume && !options.resume_from) {
    refuse_another_run(options.output);
  } else {
    checkpoint_ = checkpoint_to_resume(options);
  }
  remove_stale_temporaries(options.output);
  remove_stale_temporaries(options.output / "checkpoints");
}

std::unique_ptr<RunFolder> open_run_folder(const TrainOptions& options) {
  Communicator& world = processes_of(options);
  std::unique_ptr<RunFolder> folder;
  if (world.is_first()) folder = std::make_unique<RunFolder>(options);
  const std::string found = world.broadcast_text(folder ? folder->checkpoint().string() : "");
  if (folder) return folder;
  if (!found.empty() && !is_complete(found)) {
    throw Error(
        fmt::format("{}: not found by process {} (a run is resumed in a folder that all hosts share, under "
                    "the same path)",
                    found, world.rank()));
  }
  return std::make_unique<RunFolder>(std::filesystem::path(found));
}

// Selects among a run's checkpoints.

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
