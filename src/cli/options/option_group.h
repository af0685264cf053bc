// The options of a command, group by group of its help: what a value is, where it goes, and what it is for.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/options/option_values.h"

namespace heed::cli {

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

/// Adds options to a command, in the group of the help with this title.
class OptionGroup {
 public:
  OptionGroup(CLI::App& command, std::string title) : command_(command), title_(std::move(title)) {}

  /// An option with a value, which the help shows as `form`: TEXT, FILE, DIR, MODEL, 4|8. A list takes a
  /// value each time that the option is given.
  template <class T>
  CLI::Option* value(const std::string& names, T& value, const std::string& form, const std::string& help) {
    CLI::Option* option = command_.add_option(names, value, help)->type_name(form)->group(title_);
    return kIsList<T> ? option->allow_extra_args(false) : option;
  }

  /// A whole number of at least `least`. The help shows the default, but for one that stands for none: a
  /// std::optional, or below `least`.
  template <class T>
  CLI::Option* count(const std::string& names, T& number, std::int64_t least, const std::string& help,
                     std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
    CLI::Option* option = value(names, number, "N", help)->transform(whole_number(least, most));
    if constexpr (std::is_arithmetic_v<T>) return number < least ? option : option->capture_default_str();
    return option;
  }

  /// A number that `allowed` accepts, whose default the help shows likewise.
  template <class T>
  CLI::Option* number(const std::string& names, T& number, const std::string& help,
                      const CLI::Validator& allowed = finite_number()) {
    CLI::Option* option = value(names, number, "X", help)->check(allowed);
    return std::is_arithmetic_v<T> ? option->capture_default_str() : option;
  }

  /// One of these words, which the help shows as a|b|c with the default.
  CLI::Option* word(const std::string& names, std::string& value, const std::vector<std::string>& words,
                    const std::string& help) {
    CLI::Option* option = accept_words(command_.add_option(names, value, help), words)->group(title_);
    return value.empty() ? option : option->capture_default_str();
  }

  /// The same of words that stand for the values of an enum.
  template <class T>
  CLI::Option* choice(const std::string& names, T& value,
                      const std::vector<std::pair<std::string, T>>& choices, const std::string& help) {
    return add_choice(command_, names, value, choices, help)->group(title_);
  }

  /// An option without a value.
  template <class T>
  CLI::Option* flag(const std::string& names, T& value, const std::string& help) {
    return command_.add_flag(names, value, help)->group(title_);
  }

 private:
  CLI::App& command_;
  std::string title_;
};

}  // namespace heed::cli
