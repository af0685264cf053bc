// Shell completion, written from the commands' own options, so that the two cannot differ.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace heed::cli {

/// The script for `shell`, bash or zsh, that completes `app` and its commands. Throws UsageError for others.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace heed::cli
