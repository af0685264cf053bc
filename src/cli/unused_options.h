// Warnings about options that have no effect because another option that they need is missing.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/cli.h"
#include "heed/generate/options.h"

namespace heed::cli {

/// Warns of options of `command` whose required option is missing.
void warn_of_idle_options(const CLI::App& command, const Globals& globals);

/// Warns of generation options of `command` that have no effect under `options`: those of the model,
/// overridden by the command line.
void warn_of_idle_options(const CLI::App& command, const GenerationOptions& options, const Globals& globals);

}  // namespace heed::cli
