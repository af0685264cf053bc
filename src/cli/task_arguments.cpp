// Shared options of the commands that run encoders.
#include "cli/task_arguments.h"

#include <fmt/core.h>

#include "cli/input.h"
#include "cli/model_commands.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/processes.h"
#include "cli/signals.h"
#include "cli/terminal.h"

namespace heed::cli {
CLI::Option* add_model_option(CLI::App& command, ModelChoice& model) {
  CLI::Option* option =
      command.add_option("--model,-m", model.name, "Model directory, or the name of a model")
          ->type_name("MODEL")
          ->group("Model");
  add_adapter_option(command, model);
  return option;
}

void add_adapter_option(CLI::App& command, ModelChoice& model) {
  command
      .add_option("--adapter", model.adapters,
                  "LoRA adapter of the model, as PEFT saves it, times W if that is given; several add up")
      ->allow_extra_args(false)
      ->type_name("DIR[=W]")
      ->group("Model");
}

void add_dtype_option(CLI::App& command, std::string& dtype) {
  command.add_option("--dtype", dtype, "Type of the weights in memory; bf16 halves them")
      ->capture_default_str()
      ->type_name("f32|bf16")
      ->group("Model");
}

void add_encoder_options(CLI::App& command, TaskArguments& a) {
  add_model_option(command, a.model)->required();
  add_dtype_option(command, a.dtype);
  command
      .add_option("--batch-tokens", a.batch_tokens,
                  "Largest number of tokens, padding included, in one batch; bounds memory")
      ->transform(whole_number(1))
      ->capture_default_str()
      ->type_name("N")
      ->group("Model");
}

void add_task_options(CLI::App& command, TaskArguments& a, const char* texts) {
  command.add_option("text", a.texts, texts);
  add_encoder_options(command, a);
}

std::unique_ptr<EncoderModel> load_encoder_for(Task task, const LocatedModel& located, DType dtype,
                                               const Globals& globals) {
  std::unique_ptr<EncoderModel> model = load_model_to<EncoderModel>(task, located, dtype);
  if (tasks_of(*model).front() != task) refuse(*model, located.directory.string(), task);
  warn_of_unknown_settings(*model, located.directory, globals);
  return model;
}

void for_each_window(const TaskArguments& arguments, const Globals& globals, const WindowHandler& handle) {
  TaskOptions options;
  options.batch_tokens = arguments.batch_tokens;
  options.warn = [&](std::size_t line, const std::string& message) {
    if (!globals.quiet) warn("line " + std::to_string(line + 1) + ": " + message);
  };
  FailedLines failed(globals.json);
  options.refuse = [&](std::size_t line, const std::string& message) { failed.add(line, message); };
  options.stop = &stop_flag();
  TextWindows windows(arguments.texts, globals.quiet);
  for (std::vector<std::string> texts; windows.next(texts); collect_results()) {
    options.first_line = windows.first_line();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string line = "line " + std::to_string(options.first_line + i + 1);
      texts[i] = valid_text(texts[i], line, globals.quiet);
    }
    handle(texts, options, failed);
  }
  failed.finish();
}

std::string short_score(double score) { return fmt::format("{:.4f}", score); }

}  // namespace heed::cli
