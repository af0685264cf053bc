// Reports of lines that failed.
#include "cli/failed_lines.h"

#include <fmt/core.h>

#include "cli/processes.h"
#include "cli/terminal.h"
#include "heed/io/json.h"

namespace heed::cli {

void FailedLines::add(std::size_t line, const std::string& message) {
  print_stderr(fmt::format("heed: error: line {}: {}", line + 1, message));
  messages_[line] = message;
}

bool FailedLines::print_in_place_of(std::size_t line) const {
  const auto found = messages_.find(line);
  if (found == messages_.end()) return false;
  if (json_) {
    fmt::print("{}\n", JsonWriter().begin_object().field("error", found->second).end_object().text());
  } else {
    fmt::print("\n");
  }
  return true;
}

void FailedLines::finish() const {
  if (processes().sum({messages_.empty() ? 0.0 : 1.0})[0] > 0) throw ReportedError();
}

}  // namespace heed::cli
