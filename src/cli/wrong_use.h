// What is wrong with a command line, in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heed::cli {

/// The innermost command that was chosen; `app` itself when there is none.
const CLI::App& chosen_command(const CLI::App& app);

/// "heed bench gemm"
std::string full_name(const CLI::App& command);

/// The message for a word in the place of a command of `parent`.
std::string unknown_command(const CLI::App& parent, const std::string& word);

/// The words, in the order typed, that no command and no option of `app` took.
std::vector<std::string> left_over(const CLI::App& app, const std::vector<std::string>& words);

/// What CLI11 found wrong with `words`, the words of the command line.
std::string wrong_use(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& words);

}  // namespace heed::cli
