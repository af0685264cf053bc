// Shell completion, generated from the commands' own options, so that the two cannot differ.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace heed::cli {

/// Returns the script for `shell`, bash or zsh, that completes `app` and its commands. Throws UsageError for
/// other shells.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace heed::cli
