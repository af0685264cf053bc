// Reads windows of lines, and reports lines that failed.
#include "cli/input/lines.h"

#include <fmt/core.h>

#include "cli/terminal/exit.h"
#include "cli/terminal/processes.h"
#include "cli/terminal/terminal.h"
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
    print_stdout("{}\n", JsonWriter().begin_object().field("error", found->second).end_object().text());
  } else {
    print_stdout("\n");
  }
  return true;
}

void FailedLines::finish() const {
  if (processes().sum({messages_.empty() ? 0.0 : 1.0})[0] > 0) throw ReportedError();
}

TaskOptions line_options(const Globals& globals, std::int64_t batch_tokens, FailedLines& failed) {
  TaskOptions options;
  options.batch_tokens = batch_tokens;
  if (!globals.quiet) {
    options.on_warning = [](std::size_t line, const std::string& message) {
      warn(fmt::format("line {}: {}", line + 1, message));
    };
  }
  options.on_error = [&failed](std::size_t line, const std::string& message) { failed.add(line, message); };
  options.stop = &stop_flag();
  return options;
}

void for_each_window(const std::vector<std::string>& texts, std::int64_t batch_tokens, const Globals& globals,
                     const std::function<void(const LineWindow& window)>& handle, std::size_t most) {
  FailedLines failed(globals.json);
  TaskOptions options = line_options(globals, batch_tokens, failed);
  TextWindows windows(texts, globals.quiet, most);
  for (std::vector<std::string> window; windows.next(window); collect_results()) {
    options.first_index = windows.first_line();
    for (std::size_t i = 0; i < window.size(); ++i) {
      const std::string line = fmt::format("line {}", options.first_index + i + 1);
      window[i] = valid_text(window[i], line, globals.quiet);
    }
    handle({window, options, failed, windows});
  }
  failed.finish();
}

}  // namespace heed::cli
