// Protects what a command reads from what it writes.
#pragma once

#include <CLI/CLI.hpp>

namespace heed::cli {

/// Throws UsageError if a file that `command` would write exists and is one that it reads: a file that
/// another option names, a file of its model's or an adapter's directory, or the one that stdin comes from.
/// Links count as what they lead to.
void refuse_overwritten_inputs(const CLI::App& command);

}  // namespace heed::cli
