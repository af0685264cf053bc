// Shared options of the commands that run models on texts.
#include "cli/options/task_arguments.h"

#include <fmt/core.h>

#include <utility>

#include "cli/options/option_group.h"
#include "generate/option_fields.h"

namespace heed::cli {
namespace {

constexpr const char* kModelHelp = "A model: directory, file or name (heed help models)";

CLI::Option* add_with_adapters(CLI::App& command, ModelChoice& model, const char* names) {
  CLI::Option* option = OptionGroup(command, "Model").value(names, model.name, "MODEL", kModelHelp);
  add_adapter_option(command, model);
  return option;
}

CLI::Option* add_with_steering(CLI::App& command, ModelChoice& model, const char* names) {
  CLI::Option* option = add_with_adapters(command, model, names);
  OptionGroup group(command, "Model");
  CLI::Option* steer =
      group.value("--steer", model.steering, "FILE[=S]",
                  "Vectors to add to the residual stream, as heed steer writes them, or a control vector "
                  "of llama.cpp, times S if that is given; several add up");
  group
      .value("--steer-layers", model.steered_layers, "RANGE",
             "Layers that are steered, as 10:20, from 0 and without the last (default: all of the file)")
      ->needs(steer);
  return option;
}

constexpr const char* kOption = "--model,-m";
constexpr const char* kArgument = "model,--model,-m";

}  // namespace

CLI::Option* add_model_option(CLI::App& command, ModelChoice& model) {
  return add_with_steering(command, model, kOption);
}

CLI::Option* add_model_argument(CLI::App& command, ModelChoice& model) {
  return add_with_steering(command, model, kArgument);
}

CLI::Option* add_stored_model_argument(CLI::App& command, ModelChoice& model) {
  return add_with_adapters(command, model, kArgument);
}

CLI::Option* add_model_argument(CLI::App& command, std::string& name) {
  return OptionGroup(command, "Model").value(kArgument, name, "MODEL", kModelHelp);
}

CLI::Option* add_models_argument(CLI::App& command, std::vector<std::string>& names,
                                 const std::string& help) {
  return command.add_option(kArgument, names, help)->type_name("MODEL")->group("Model");
}

void add_adapter_option(CLI::App& command, ModelChoice& model) {
  OptionGroup(command, "Model")
      .value("--adapter", model.adapters, "DIR[=W]",
             "LoRA adapter of the model, as PEFT saves it, times W if that is given; several add up");
}

void add_activations_option(CLI::App& command, WeightArguments& weights) {
  weights.activations = "auto";
  OptionGroup(command, "Model")
      .word("--activations", weights.activations, {"auto", "f32", "int8"},
            "Type of what quantized weights are multiplied with; int8 is faster and rounds; auto: int8 in "
            "encoders of texts where this processor gains by it, else f32");
}

CLI::Option* add_cache_dtype_option(CLI::App& command, std::optional<CacheDType>& dtype) {
  std::vector<std::pair<std::string, std::optional<CacheDType>>> choices;
  for (const CacheDType known : kCacheDTypes) choices.emplace_back(name_of(known), known);
  return add_choice(command, "--cache-dtype", dtype, choices, generate::kCacheDTypeHelp);
}

void add_weight_options(CLI::App& command, WeightArguments& weights) {
  OptionGroup(command, "Model")
      .word("--dtype", weights.dtype, {"f32", "bf16"},
            "Type of the weights in memory; bf16 halves those of f32 files");
  add_activations_option(command, weights);
}

void add_batch_tokens_option(CLI::App& command, std::int64_t& batch_tokens) {
  OptionGroup(command, "Model")
      .count("--batch-tokens", batch_tokens, 1,
             "Largest number of input tokens, padding included, in one batch; bounds memory");
}

CLI::Option* add_model_options(CLI::App& command, TaskArguments& a) {
  CLI::Option* model = add_model_option(command, a.model);
  add_weight_options(command, a.weights);
  add_batch_tokens_option(command, a.batch_tokens);
  return model;
}

void add_task_options(CLI::App& command, TaskArguments& a, const char* texts) {
  command.add_option("text", a.texts, texts);
  add_model_options(command, a)->required();
}

std::string short_score(double score) { return fmt::format("{:.4f}", score); }

}  // namespace heed::cli
