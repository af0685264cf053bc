// Writing a model that was changed, with the other files of the directory it came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/cli.h"
#include "heed/open/loaded_model.h"

namespace heed::cli {

/// Adds --output and --dtype.
struct WrittenModel {
  std::filesystem::path output;
  std::string dtype;  // empty: that of the model's file

  /// `help`: of --output.
  void add_options(CLI::App& command, const char* help = "Directory to write the model to",
                   const char* kind = "DIR");
  /// Throws Error where the output is a model already.
  void check() const;
  /// --dtype, or that of most bytes of the model's files. Throws UsageError for other names.
  DType type(const LoadedModel& model) const;
  /// Writes the model as this type, and what it has beside its weights. Ctrl-C leaves nothing behind.
  void write(const LoadedModel& model) const;
};

/// The size of the files with the weights of a model: a directory or a GGUF file.
std::uint64_t bytes_of_weights(const std::filesystem::path& model);

/// Throws Canceled after Ctrl-C.
void stop_if_asked();

}  // namespace heed::cli
