// Validators of option values, which are checked before anything runs.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heed::cli {

/// Accepts a decimal integer from `least` to `most`. For transform(), which then sees it without leading
/// zeros.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// Accepts a finite number. For check().
CLI::Validator finite_number();
/// The same, above 0.
CLI::Validator positive_number();
/// The same, 0 or above.
CLI::Validator number_from_zero();

/// Limits an option to these words, which the help lists as a|b|c.
CLI::Option* accept_words(CLI::Option* option, const std::vector<std::string>& words);

/// Adds an option whose words stand for the values of an enum.
template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, T& value,
                        const std::vector<std::pair<std::string, T>>& choices, const std::string& help) {
  std::vector<std::string> words;
  std::string shown;
  for (const auto& [word, choice] : choices) {
    words.push_back(word);
    if (choice == value) shown = word;
  }
  const auto choose = [&value, choices](const std::vector<std::string>& given) {
    for (const auto& [word, choice] : choices) {
      if (word == given.front()) value = choice;
    }
    return true;
  };
  return accept_words(command.add_option(flag, choose, help), words)->default_str(shown);
}

/// Throws Error `OPTION: PATH: not found (check the path)` if nothing of that name exists.
void require_file(const char* option, const std::filesystem::path& path);

/// Parses all of `text` as a number. Returns false if there is anything around it, or if it does not fit.
template <class T>
bool parse_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

/// Adds the numbers of "1,2,3" to `ids`. Returns false for anything else.
bool append_ids(const std::string& list, std::vector<std::int64_t>& ids);

/// Returns the numbers of "1,2,3". Throws UsageError naming `option` for anything else.
std::vector<std::int64_t> parse_ids(const std::string& list, const std::string& option);

/// The same for ids that must be below `vocab_size`.
std::vector<std::int64_t> token_ids(const std::string& list, const std::string& option,
                                    std::int64_t vocab_size);

}  // namespace heed::cli
