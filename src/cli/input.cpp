// Reading what the user gave.
#include "cli/input.h"

#include <charconv>
#include <iostream>
#include <sstream>

#include "cli/cli.h"
#include "heed/io/file.h"

namespace heed::cli {
namespace {

std::vector<std::string> lines_of(std::istream& stream) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

std::vector<std::string> read_texts(const std::vector<std::string>& arguments) {
  return arguments.empty() ? lines_of(std::cin) : arguments;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::istringstream stream(read_file(path));
  return lines_of(stream);
}

std::vector<std::int64_t> parse_ids(const std::string& list) {
  std::vector<std::int64_t> ids;
  std::istringstream stream(list);
  for (std::string item; std::getline(stream, item, ',');) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (error != std::errc() || end != item.data() + item.size()) {
      throw UsageError("ids: expected numbers separated by commas, got \"" + list + "\"");
    }
    ids.push_back(id);
  }
  if (ids.empty()) throw UsageError("ids: expected at least one number, got \"" + list + "\"");
  return ids;
}

}  // namespace heed::cli
