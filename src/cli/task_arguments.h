// What the commands over encoders share: their options, the model with the head a command needs, and the
// texts in windows.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/failed_lines.h"
#include "heed/models/model.h"
#include "heed/tasks/batches.h"

namespace heed::cli {

struct TaskArguments {
  std::vector<std::string> texts;
  std::string model;
  std::string dtype = "f32";
  std::int64_t batch_tokens = 4096;
};

/// Adds --model.
CLI::Option* add_model_option(CLI::App& command, std::string& model);
/// Adds --dtype, of weights in f32 or bf16.
void add_dtype_option(CLI::App& command, std::string& dtype);
/// Adds --model, --dtype and --batch-tokens.
void add_encoder_options(CLI::App& command, TaskArguments& arguments);
/// These and the texts, which the help describes as `texts`.
void add_task_options(CLI::App& command, TaskArguments& arguments, const char* texts);

/// An encoder with this head. Throws Error that names the command which fits another model.
std::unique_ptr<EncoderModel> load_encoder_with(const std::filesystem::path& directory, DType dtype,
                                                EncoderHead head, const Globals& globals);

/// Works on the valid texts of a window, with options that count lines; lines that are refused are in
/// `failed` afterwards.
using WindowHandler = std::function<void(const std::vector<std::string>& texts, const TaskOptions& options,
                                         const FailedLines& failed)>;
/// Calls `handle` with each window; throws ReportedError at the end where lines failed.
void for_each_window(const TaskArguments& arguments, const Globals& globals, const WindowHandler& handle);

/// 0.9731 for people.
std::string short_score(double score);

}  // namespace heed::cli
