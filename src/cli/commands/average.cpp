// heed average: averages checkpoints.
#include "cli/cli.h"
#include "cli/input/models.h"
#include "cli/terminal/terminal.h"
#include "heed/train/checkpoint.h"

namespace heed::cli {

void add_average(CLI::App& app, const Globals& globals) {
  struct Arguments {
    std::vector<std::filesystem::path> directories;
    std::filesystem::path output;
  };
  CLI::App* command =
      app.add_subcommand("average", "Write the mean of models of one shape, such as checkpoints");
  auto a = std::make_shared<Arguments>();
  command->add_option("directories", a->directories, "Model directories, e.g. a run's checkpoints")
      ->required()
      ->type_name("DIR");
  command->add_option("--output,-o", a->output, "Directory to write the model to")
      ->required()
      ->type_name("DIR")
      ->group("Output");
  command->footer(
      "Examples:\n  heed average runs/en-fr/checkpoints/9000 runs/en-fr/checkpoints/10000 --output averaged");
  command->callback([a, &globals] {
    for (const auto& directory : a->directories) refuse_unfinished_run(directory);
    average_models(a->directories, a->output);
    if (!globals.quiet) print_stderr("wrote " + a->output.string());
  });
}

}  // namespace heed::cli
