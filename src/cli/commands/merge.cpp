// heed merge: writes a model with its adapters merged into the weights, or in another type.
#include "cli/cli.h"
#include "cli/input/models.h"
#include "cli/options/task_arguments.h"
#include "cli/results/written_model.h"
#include "heed/models/registry.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct MergeArguments {
  ModelChoice model;
  WrittenModel to;
};

void run(const MergeArguments& a, const Globals& globals) {
  const LocatedModel located = locate_model(a.model);
  if (located.adapters.empty() && a.to.dtype.empty()) {
    throw UsageError(
        "--adapter: missing (give at least one to merge into the model, or --dtype to write the model as it "
        "is in another type)");
  }
  for (const AdapterSource& source : located.adapters) {
    std::error_code error;
    if (fs::equivalent(source.directory, a.to.output, error))
      throw UsageError("--output: expected another folder than the adapter's, got " + a.to.output.string());
  }
  a.to.check();
  stop_if_asked();
  const DType dtype = a.to.type(located.directory);
  const auto model = load_model(located.directory, DType::f32, located.adapters);
  warn_of_unknown_settings(*model, located.directory, globals);
  model->merge_adapters();
  a.to.write(*model, located.directory, dtype, globals);
}

}  // namespace

void add_merge(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "merge", "Write a model with LoRA adapters merged into its weights, or in another type");
  auto a = std::make_shared<MergeArguments>();
  add_stored_model_option(*command, a->model)->required();
  a->to.add_options(*command);
  command->footer(
      "Examples:\n"
      "  heed merge --model gpt2 --adapter runs/poems --output gpt2-poems\n"
      "  heed merge --model gpt2 --adapter runs/poems=0.7 --adapter runs/verse=0.3 --output gpt2-mixed\n"
      "  heed merge --model gpt2 --dtype bf16 --output gpt2-half");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
