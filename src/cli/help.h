// The text of --help: options in groups, with the common options at the end of every command's.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heed::cli {

/// Group of the options every command takes.
inline constexpr const char* kCommonOptions = "Common options";

/// "-m" and "--model" of an option, short names first; none for what is positional only.
std::vector<std::string> option_names(const CLI::Option& option);

/// Whether an option takes a value; flags do not.
bool takes_value(const CLI::Option& option);

/// Options `command` takes and --help lists: its own in their order, then those of the commands around it.
std::vector<const CLI::Option*> listed_options(const CLI::App& command);

/// The positional arguments of a command.
std::vector<const CLI::Option*> positionals(const CLI::App& command);

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace heed::cli
