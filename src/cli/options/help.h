// What is generated from the commands' own options: the text of --help, in groups with the common options at
// the end of every command's, and shell completion.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heed::cli {

/// The group of the options that every command has.
inline constexpr const char* kCommonOptions = "Common options";

/// Returns the names of an option, such as "-m" and "--model", short names first; empty for a positional
/// argument.
std::vector<std::string> option_names(const CLI::Option& option);

/// Returns true if an option takes a value; flags do not.
bool takes_value(const CLI::Option& option);

/// Returns the options of `command` that --help lists: its own in their order, then those of its parent
/// commands.
std::vector<const CLI::Option*> listed_options(const CLI::App& command);

/// Returns the positional arguments of a command.
std::vector<const CLI::Option*> positionals(const CLI::App& command);

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

/// Returns the script for `shell`, bash or zsh, that completes `app` and its commands. Throws UsageError for
/// other shells.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace heed::cli
