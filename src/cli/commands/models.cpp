// heed models: the models that --model finds by name, or what one of them is.
#include <fmt/format.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/input/models.h"
#include "cli/options/task_arguments.h"
#include "cli/results/model_summary.h"
#include "cli/terminal/terminal.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct ModelRow {
  std::string name, family, command;
  std::uint64_t bytes = 0;  // of the weights
  fs::path directory;
};

std::uint64_t bytes_of_weights(const fs::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".safetensors" && entry.is_regular_file(error))
      bytes += entry.file_size();
  }
  return bytes;
}

// A model whose files cannot be read is listed all the same: with what is to be done.
ModelRow row_of(const KnownModel& model) {
  ModelRow row{model.name, "", "", bytes_of_weights(model.directory), model.directory};
  try {
    if (model.directory.empty()) {
      row.family = "incomplete";
      row.command = "pull";
    } else if (is_adapter(model.directory)) {
      row.family = "adapter of " + base_of_adapter(model.directory);
      row.command = "convert";
    } else {
      const auto opened = load_model(model.directory);  // which reads no weights
      row.family = opened->family();
      row.command = commands_for(*opened).front();
    }
  } catch (const Error&) {
    row.family = "unreadable";
    row.command = "models";
  }
  return row;
}

std::string size_of_weights(std::uint64_t bytes) {
  return bytes < 1'000'000'000 ? fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes))
                               : fmt::format("{:.2f} GB", 1e-9 * static_cast<double>(bytes));
}

void print_table(const std::vector<ModelRow>& rows) {
  std::vector<std::vector<std::string>> lines{{"model", "family", "command", "size", "directory"}};
  for (const ModelRow& row : rows)
    lines.push_back({row.name, row.family, row.command, size_of_weights(row.bytes), row.directory.string()});
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const auto& line : lines) {
    fmt::print("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {}\n", line[0], widths[0], line[1], widths[1], line[2],
               widths[2], line[3], widths[3], printable(line[4]));
  }
}

void list_models(const Globals& globals) {
  std::vector<ModelRow> rows;
  for (const KnownModel& model : known_models()) rows.push_back(row_of(model));
  if (globals.json) {
    for (const ModelRow& row : rows) {
      JsonWriter json;
      json.begin_object()
          .field("model", row.name)
          .field("model_type", row.family)
          .field("command", row.command)
          .field("bytes", row.bytes)
          .field("directory", row.directory.string());
      fmt::print("{}\n", json.end_object().text());
    }
  } else if (!rows.empty()) {
    print_table(rows);
  } else if (!globals.quiet) {
    print_stderr(
        "no models are here (heed pull OWNER/MODEL downloads one; HEED_MODELS names folders of models)");
  }
}

}  // namespace

void add_models(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("models", "List the models that are here, or describe one: sizes, memory, commands");
  auto name = std::make_shared<std::string>();
  add_model_argument(*command, *name);
  command->footer(
      "Without a model, lists those that a name finds, each with its family, the command that runs it, and "
      "the\n"
      "size of its weights.\n\n"
      "A model is, here and in other commands, a directory in the layout of Hugging Face, a GGUF file, or a\n"
      "name, which is looked up in the folders of HEED_MODELS, among the models installed with heed, and in\n"
      "the Hugging Face cache. A LoRA adapter that names its base is a model as well.\n"
      "\n"
      "Examples:\n"
      "  heed models\n"
      "  heed models en-fr\n"
      "  heed models ./checkpoint --json");
  command->callback([name, command, &globals] {
    command->count("--model") > 0 ? print_model(locate_model(*name), globals) : list_models(globals);
  });
}

}  // namespace heed::cli
