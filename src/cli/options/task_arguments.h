// Shared by the commands that run models on texts: their options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/input/models.h"
#include "heed/nn/cache_dtype.h"

namespace heed::cli {

struct TaskArguments {
  std::vector<std::string> texts;
  ModelChoice model;
  WeightArguments weights;
  std::int64_t batch_tokens = 4096;
};

/// Adds --model, --adapter, --steer and --steer-layers, and returns the first.
CLI::Option* add_model_option(CLI::App& command, ModelChoice& model);
/// The same for a command that takes a model first: as an argument, or as --model.
CLI::Option* add_model_argument(CLI::App& command, ModelChoice& model);
/// The same with --adapter alone, for a command that writes or measures the model.
CLI::Option* add_stored_model_argument(CLI::App& command, ModelChoice& model);
/// The same with the name alone.
CLI::Option* add_model_argument(CLI::App& command, std::string& name);
/// The same of several models.
CLI::Option* add_models_argument(CLI::App& command, std::vector<std::string>& names, const std::string& help);
/// Adds --adapter alone.
void add_adapter_option(CLI::App& command, ModelChoice& model);
/// Adds --dtype, f32 or bf16, and --activations, auto, f32 or int8.
void add_weight_options(CLI::App& command, WeightArguments& weights);
/// Adds --activations alone.
void add_activations_option(CLI::App& command, WeightArguments& weights);
/// Adds --cache-dtype, for a command without generation options, in no group.
CLI::Option* add_cache_dtype_option(CLI::App& command, std::optional<CacheDType>& dtype);
/// Adds --batch-tokens.
void add_batch_tokens_option(CLI::App& command, std::int64_t& batch_tokens);
/// Adds all of these, and returns --model.
CLI::Option* add_model_options(CLI::App& command, TaskArguments& arguments);
/// Adds the same with a required --model, and the texts, which the help describes as `texts`.
void add_task_options(CLI::App& command, TaskArguments& arguments, const char* texts);

/// Returns a score in short form, such as 0.9731.
std::string short_score(double score);

}  // namespace heed::cli
