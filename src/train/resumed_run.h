// What a run goes on with: the state of a checkpoint, for a recipe and data that are those of the run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "heed/train/checkpoint.h"
#include "heed/train/loop.h"

namespace heed {

/// The checksum of the file, or of the files in the folder, of each key of [data] that has one.
std::map<std::string, std::string> checksums_of_data(const Recipe& recipe);

/// Throws Error naming the keys in which `recipe` differs from that of the checkpoint's run, although a
/// resumed run may not change them. With options.force it says so in a message instead, except for those of
/// the model, which cannot change.
void check_recipe_of_run(const std::filesystem::path& checkpoint, const TrainingState& state,
                         const Recipe& recipe, const TrainOptions& options);

/// Says which of --init and tokenizer.from a resumed run does not use.
void report_unused_model(const std::filesystem::path& checkpoint, const TrainingState& state,
                         const Recipe& recipe, const TrainOptions& options);

/// The state of the checkpoint. Throws Error if recipe or data changed, as above, naming the files. With
/// options.force, scores on other data do not count, a position past the end of an epoch is the start of the
/// next, and a changed train.warmup is `warmup` steps.
TrainingState resumed_state(const std::filesystem::path& checkpoint, const TrainingTask& task,
                            const Recipe& recipe, const TrainOptions& options, std::int64_t warmup);

}  // namespace heed
