// Checks values on the command line.
#include "cli/options/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/cli.h"
#include "files/input_file.h"

namespace heed::cli {

void require_file(const char* option, const std::filesystem::path& path) {
  if (!has_entry(path)) throw Error(fmt::format("{}: {}: not found (check the path)", option, path.string()));
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    std::int64_t value = 0;
    const bool parsed = parse_number(text, value);
    if (!parsed || value < least || value > most) {
      const bool is_above = !parsed && !text.empty() && text.find_first_not_of("0123456789") == text.npos;
      return most == std::numeric_limits<std::int64_t>::max() && !is_above
                 ? fmt::format("expected a whole number of at least {}, got {}", least, text)
                 : fmt::format("expected a whole number from {} to {}, got {}", least, most, text);
    }
    text = std::to_string(value);  // CLI11 would parse a leading zero as octal
    return "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator finite_number() {
  const auto check = [](std::string& text) -> std::string {
    double value = 0;
    return parse_number(text, value) && std::isfinite(value) ? ""
                                                             : fmt::format("expected a number, got {}", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    double value = 0;
    return parse_number(text, value) && std::isfinite(value) && value > 0
               ? ""
               : fmt::format("expected a number above 0, got {}", text);
  };
  return CLI::Validator(check, "");
}

CLI::Validator number_from_zero() {
  const auto check = [](std::string& text) -> std::string {
    double value = 0;
    return parse_number(text, value) && std::isfinite(value) && value >= 0
               ? ""
               : fmt::format("expected a number of at least 0, got {}", text);
  };
  return CLI::Validator(check, "");
}

CLI::Option* accept_words(CLI::Option* option, const std::vector<std::string>& words) {
  const auto check = [words](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    const std::vector<std::string> others(words.begin(), words.end() - 1);
    return fmt::format("expected {} or {}, got {}", fmt::join(others, ", "), words.back(), text);
  };
  return option->check(check)->type_name(fmt::format("{}", fmt::join(words, "|")));
}

bool append_ids(const std::string& list, std::vector<std::int64_t>& ids) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (!parse_number(list.substr(begin, end - begin), ids.emplace_back())) return false;
    begin = end + 1;
  }
  return true;
}

std::vector<std::int64_t> parse_ids(const std::string& list, const std::string& option) {
  std::vector<std::int64_t> ids;
  if (!append_ids(list, ids))
    throw UsageError(fmt::format("{}: expected whole numbers separated by commas, got \"{}\"", option, list));
  return ids;
}

std::vector<std::int64_t> token_ids(const std::string& list, const std::string& option,
                                    std::int64_t vocab_size) {
  std::vector<std::int64_t> ids = parse_ids(list, option);
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= vocab_size)
      throw UsageError(fmt::format("{}: expected ids from 0 to {}, got {}", option, vocab_size - 1, id));
  }
  return ids;
}

}  // namespace heed::cli
