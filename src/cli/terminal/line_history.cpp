// The file has an entry a line, in which \n is a line end and \\ a backslash. A run appends to it, so that
// several at once lose nothing; one that finds twice as many entries as it needs shortens it.
#include "cli/terminal/line_editor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "cli/terminal/terminal.h"
#include "files/descriptor.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/hub_cache.h"
#include "heed/text/unicode.h"

namespace heed::cli {
namespace {

constexpr std::size_t kLongestEntry = 16384;

std::string as_line(const std::string& entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\\') {
      line += "\\\\";
    } else {
      line += c;
    }
  }
  return line;
}

std::string as_entry(const std::string& line) {
  std::string entry;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool escapes = line[i] == '\\' && i + 1 < line.size();
    if (escapes) ++i;
    entry += escapes && line[i] == 'n' ? '\n' : line[i];
  }
  return replace_invalid_utf8(entry);
}

}  // namespace

std::filesystem::path history_file(const std::string& name) {
  const std::filesystem::path state = path_in_environment("XDG_STATE_HOME");
  if (state.is_absolute()) return state / "heed" / name;
  const std::filesystem::path home = path_in_environment("HOME");
  return home.is_absolute() ? home / ".local" / "state" / "heed" / name : std::filesystem::path();
}

LineHistory::LineHistory(std::filesystem::path file) : file_(std::move(file)) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file_, unknown)) return;  // a link to /dev/null keeps nothing
  try {
    std::istringstream stream(read_regular_file(file_, 4 * kMost * kLongestEntry));
    for (std::string line; std::getline(stream, line);) entries_.push_back(as_entry(line));
    const std::size_t count = entries_.size();
    if (count > kMost) entries_.erase(entries_.begin(), entries_.end() - kMost);
    if (count <= 2 * kMost) return;
    std::string lines;
    for (const std::string& entry : entries_) lines += as_line(entry) + "\n";
    write_file(file_, lines);
  } catch (const Error& error) {
    warn_once(error.what());
  }
}

void LineHistory::add(const std::string& entry) {
  if (entry.empty() || entry.size() > kLongestEntry || (!entries_.empty() && entries_.back() == entry))
    return;
  entries_.push_back(entry);
  if (entries_.size() > kMost) entries_.erase(entries_.begin());
  if (!file_.empty()) append(as_line(entry) + "\n");
}

void LineHistory::append(const std::string& line) {
  std::error_code failed;
  std::filesystem::create_directories(file_.parent_path(), failed);
  const files::Descriptor file(files::open_descriptor(file_, O_WRONLY | O_CREAT | O_APPEND, 0600));
  if (file.get() < 0 || ::write(file.get(), line.data(), line.size()) != std::ssize(line))
    warn_once(file_.string() + ": cannot be written (" + std::strerror(errno) + ")");
}

void LineHistory::warn_once(const std::string& reason) {
  warn(reason + "; what is typed is not kept (--no-history: say so)");
  file_.clear();
}

}  // namespace heed::cli
