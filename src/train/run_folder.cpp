// Opens an output folder for a run.
#include "train/run_folder.h"

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

}  // namespace heed
