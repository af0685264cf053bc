// What a model is: family, commands that run it, sizes, memory, tensors.
#pragma once

#include <filesystem>

#include "cli/cli.h"

namespace heed::cli {

/// Prints what is in a model's directory, as JSON or text; or in that of an adapter.
void print_model(const std::filesystem::path& directory, const Globals& globals);

}  // namespace heed::cli
