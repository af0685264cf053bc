// The command line before a command runs: its words, what is wrong with it in one line, and files that it
// would write over what it reads.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heed::cli {

/// Returns the command line for CLI11 with marks on words in brackets: CLI11 would parse a text "[MASK]" as a
/// list.
std::vector<std::string> protect_brackets(int argc, char** argv);

/// Makes every option of `app` and its commands remove the marks from its values.
void unprotect_values(CLI::App& app);

/// Returns the innermost selected command, or `app` itself if there is none.
const CLI::App& chosen_command(const CLI::App& app);

/// Returns a command's full name, such as "heed bench gemm".
std::string full_name(const CLI::App& command);

/// Returns the message for a word that is not a command of `parent`.
std::string unknown_command(const CLI::App& parent, const std::string& word);

/// Returns the words, in the order typed, that neither a command nor an option of `app` consumed.
std::vector<std::string> unconsumed_words(const CLI::App& app, const std::vector<std::string>& words);

/// Throws UsageError if a file that `command` would write exists and is one that it reads: a file that
/// another option names, a file of its model's or an adapter's directory, or the one that stdin comes from.
/// Links count as what they lead to.
void refuse_overwritten_inputs(const CLI::App& command);

/// Returns the message for an error that CLI11 found in `words`, the words of the command line.
std::string wrong_use(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& words);

}  // namespace heed::cli
