// Shared by the commands that run encoders: their options, the model with the required head, and the texts in
// windows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/failed_lines.h"
#include "cli/models.h"
#include "heed/api/loaded_model.h"
#include "heed/models/model.h"
#include "heed/tasks/batches.h"

namespace heed::cli {

struct TaskArguments {
  std::vector<std::string> texts;
  ModelChoice model;
  std::string dtype = "f32";
  std::int64_t batch_tokens = 4096;
};

/// Adds --model and --adapter, and returns the former.
CLI::Option* add_model_option(CLI::App& command, ModelChoice& model);
/// Adds --adapter alone.
void add_adapter_option(CLI::App& command, ModelChoice& model);
/// Adds --dtype for the weights, f32 or bf16.
void add_dtype_option(CLI::App& command, std::string& dtype);
/// Adds --model, --dtype and --batch-tokens.
void add_encoder_options(CLI::App& command, TaskArguments& arguments);
/// Adds these and the texts, which the help describes as `texts`.
void add_task_options(CLI::App& command, TaskArguments& arguments, const char* texts);

/// Loads an encoder whose head is for this task. For another model, throws Error naming the command that fits
/// it.
std::unique_ptr<EncoderModel> load_encoder_for(Task task, const LocatedModel& located, DType dtype,
                                               const Globals& globals);

/// Processes the valid texts of a window, with options that count lines. Once the task has run, `failed`
/// contains the refused lines.
using WindowHandler = std::function<void(const std::vector<std::string>& texts, const TaskOptions& options,
                                         const FailedLines& failed)>;
/// Calls `handle` with each window. Throws ReportedError at the end if any line failed.
void for_each_window(const TaskArguments& arguments, const Globals& globals, const WindowHandler& handle);

/// Returns a score in short form, such as 0.9731.
std::string short_score(double score);

}  // namespace heed::cli
