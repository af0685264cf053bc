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

}  // namespace heed
