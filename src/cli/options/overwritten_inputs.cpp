// Compares the files that a command writes with those that it reads.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/options/help.h"
#include "cli/options/usage_errors.h"
#include "heed/models/find_model.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

// The options whose values are files to write.
constexpr const char* kOutputs[] = {"--output", "--attention", "--taps-output"};

std::string name_of_option(const CLI::Option& option) {
  const std::vector<std::string> names = option_names(option);
  return names.empty() ? option.get_name(true) : names.back();
}

bool is_output(const CLI::Option& option) {
  return std::find(std::begin(kOutputs), std::end(kOutputs), name_of_option(option)) != std::end(kOutputs);
}

// Whether the values name files, folders or models: the help says so.
bool names_files(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("FILE") || type.starts_with("DIR") || type == "MODEL";
}

// The values that were given, or else the default.
std::vector<std::string> values_of(const CLI::Option& option) {
  std::vector<std::string> values = option.count() > 0 ? option.results() : std::vector<std::string>();
  if (values.empty() && !option.get_default_str().empty()) values.push_back(option.get_default_str());
  return values;
}

// What a value names: a file or folder, DIR=WEIGHT or FILE=STRENGTH, or the directories of a model and its
// adapters.
std::vector<fs::path> places_of(const std::string& value) {
  std::error_code error;
  if (fs::is_regular_file(value, error)) return {value};
  try {
    const std::string folder = fs::exists(value, error) ? value : value.substr(0, value.rfind('='));
    if (fs::is_regular_file(folder, error)) return {folder};  // FILE=STRENGTH
    const LocatedModel model = locate_model(folder);
    std::vector<fs::path> places{model.directory};
    for (const AdapterSource& adapter : model.adapters) places.push_back(adapter.directory);
    return places;
  } catch (const Error&) {
    return {};  // the command says what is wrong with it
  }
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

// The file at or below `place` that `output` is.
std::optional<fs::path> file_at(const fs::path& place, const fs::path& output) {
  std::error_code error;
  if (!fs::is_directory(place, error))
    return is_same_file(place, output) ? std::optional(place) : std::nullopt;
  for (fs::recursive_directory_iterator at(place, error), end; !error && at != end; at.increment(error)) {
    if (is_same_file(at->path(), output)) return at->path();
  }
  return std::nullopt;
}

bool is_stdin(const fs::path& output) {
  struct stat in {
  }, out{};
  return ::fstat(STDIN_FILENO, &in) == 0 && ::stat(output.c_str(), &out) == 0 && in.st_dev == out.st_dev &&
         in.st_ino == out.st_ino;
}

void refuse_overwritten_inputs(const CLI::App& command, const CLI::Option& writer, const fs::path& output) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError(name_of_option(writer) + ": expected a file that the command does not read, got " +
                     output.string() + ", " + what + " (choose another name)");
  };
  if (is_stdin(output)) refuse("which is the input");
  for (const CLI::Option* option : command.get_options()) {
    if (is_output(*option) || !names_files(*option)) continue;
    for (const std::string& value : values_of(*option)) {
      for (const fs::path& place : places_of(value)) {
        if (const auto file = file_at(place, output))
          refuse("which " + name_of_option(*option) + " reads as " + file->string());
      }
    }
  }
}

}  // namespace

void refuse_overwritten_inputs(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (!is_output(*option) || option->count() == 0) continue;
    for (const std::string& output : option->results()) {
      std::error_code error;  // devices and pipes are not replaced
      if (fs::is_regular_file(output, error)) refuse_overwritten_inputs(command, *option, output);
    }
  }
}

}  // namespace heed::cli
