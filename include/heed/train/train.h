// Trains a model from a recipe, from data to the finished model directory.
#pragma once

#include "heed/export.h"
#include "heed/train/loop.h"
#include "heed/train/recipe.h"

namespace HEED_API heed {

/// Trains the recipe's model and writes to options.output: config.json, generation_config.json,
/// model.safetensors and the tokenizer's files in Hugging Face layout, checkpoints/STEP/ (each of them a
/// model directory too), log.jsonl, loss.svg, and the pairs held out from the training file (dev.source.txt,
/// dev.reference.txt, and the same for test). Throws Error if the recipe is contradictory or the data has no
/// usable pairs, and as train_loop does.
TrainResult train(const Recipe& recipe, const TrainOptions& options);

/// Reads the data, makes the model and runs two steps of it, as train would, and writes nothing:
/// options.output is not used, and everything that is read is kept in memory. Throws Error as train does.
DryRun dry_run(const Recipe& recipe, const TrainOptions& options);

/// The scores of the model in options.init on data.test, as training computes them, for the tasks on labeled
/// texts: classification, tagging and answers. Throws Error if data.test is not set, if it cannot be read, or
/// if the model has no head for the task or lacks labels of the data.
Evaluation evaluate(const Recipe& recipe, const TrainOptions& options);

}  // namespace heed
