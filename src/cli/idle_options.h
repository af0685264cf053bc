// Options that were given but cannot change anything, because another one that they need was not.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "heed/generate/options.h"

namespace heed::cli {

/// Warns of options of `command` that need another option, which is missing.
void warn_of_idle_options(const CLI::App& command, const Globals& globals);

/// Warns of generation options of `command` that cannot act under `options`, the model's with those of the
/// command line over them.
void warn_of_idle_options(const CLI::App& command, const GenerationOptions& options, const Globals& globals);

}  // namespace heed::cli
