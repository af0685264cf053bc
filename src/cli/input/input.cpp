// Reads the user's texts and conversations.
#include "cli/input/input.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>
#include <string_view>

#include "cli/options/option_group.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/processes.h"
#include "cli/terminal/terminal.h"
#include "core/json.h"
#include "core/text_lines.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/text/unicode.h"

namespace heed::cli {
namespace {

// The lines of stdin. iostreams cannot tell what can be read without blocking.
class StdinLines {
 public:
  // Waits for the next line. Returns false after the last.
  bool next(std::string& line) {
    while (!have_line() && !ended_) fill();
    if (begin_ == buffer_.size()) return false;
    const std::size_t end = have_line() ? scanned_ : buffer_.size();
    line = buffer_.substr(begin_, end - begin_);
    if (line.ends_with('\r')) line.pop_back();
    if (!std::exchange(any_, true)) drop_byte_order_mark(line);
    begin_ = std::min(end + 1, buffer_.size());
    scanned_ = begin_;
    return true;
  }
  // Returns true if next() would return a line without blocking. For an incomplete line, returns false.
  bool ready() {
    for (;;) {
      if (have_line()) return true;
      if (ended_) return begin_ < buffer_.size();
      pollfd descriptor{STDIN_FILENO, POLLIN, 0};
      if (poll(&descriptor, 1, 0) <= 0) return false;
      fill();
    }
  }
  // Waits until another line or the end is known. Returns true if no line follows.
  bool at_end() {
    while (begin_ == buffer_.size() && !ended_) fill();
    return begin_ == buffer_.size();
  }

 private:
  bool have_line() {
    scanned_ = std::min(buffer_.find('\n', scanned_), buffer_.size());
    return scanned_ < buffer_.size();
  }
  void fill() {
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
    // The flag may be set just before the wait begins, so it is polled.
    constexpr int kLookAgainMs = 100;
    pollfd descriptor{STDIN_FILENO, POLLIN, 0};
    while (poll(&descriptor, 1, kLookAgainMs) <= 0) {
      if (stop_requested()) throw Canceled();
    }
    std::array<char, 65536> piece;
    const ssize_t count = read(STDIN_FILENO, piece.data(), piece.size());
    if (count > 0) {
      buffer_.append(piece.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      ended_ = true;
    } else if (errno != EINTR) {
      throw Error(errno == EBADF ? "stdin: is closed" : "stdin: cannot be read (is it a folder?)");
    }
  }

  std::string buffer_;
  std::size_t begin_ = 0;    // start of the next line
  bool any_ = false;         // a line was returned
  std::size_t scanned_ = 0;  // no line ends before this
  bool ended_ = false;
};

// Before the first line is read from a terminal, prints a notice unless `quiet`.
StdinLines& stdin_lines(bool quiet) {
  static StdinLines lines;
  static const bool announced = [&] {
    if (!quiet && isatty(STDIN_FILENO) == 1) print_stderr("reading lines from the terminal; end with Ctrl-D");
    return true;
  }();
  (void)announced;
  return lines;
}

constexpr std::string_view kSpaces = " \t\r\n";

// The next line of the text that is not blank, which it loses; empty at the end.
std::string_view next_line(std::string_view& text, std::size_t& number) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(kSpaces) != line.npos) return line;
  }
  return {};
}

enum class Named { nothing, missing, file };

// What a text names, if it is the name of a file: one that exists, or one word with a usual ending.
Named named_by(const std::string& text) {
  constexpr std::string_view kEndings[] = {".txt", ".md",   ".csv",  ".tsv",  ".json", ".jsonl", ".html",
                                           ".pdf", ".docx", ".jpg",  ".jpeg", ".png",  ".gif",   ".webp",
                                           ".bmp", ".wav",  ".flac", ".mp3",  ".ogg",  ".m4a"};
  std::error_code unknown;
  if (std::filesystem::is_regular_file(text, unknown)) return Named::file;
  const bool looks = text.find_first_of(kSpaces) == text.npos &&
                     std::find(std::begin(kEndings), std::end(kEndings),
                               std::filesystem::path(text).extension().string()) != std::end(kEndings) &&
                     !std::filesystem::path(text).stem().empty();
  return looks ? Named::missing : Named::nothing;
}

bool is_json(std::string_view line) {
  try {
    parse_json(line, "line");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string valid_text(const std::string& text, const std::string& where, bool quiet) {
  std::size_t replaced = 0;
  std::string valid = replace_invalid_utf8(text, &replaced);
  if (replaced > 0 && !quiet) {
    warn(where + ": " + std::to_string(replaced) + " invalid UTF-8 sequence" + (replaced == 1 ? "" : "s") +
         " replaced");
  }
  return valid;
}

void add_tokens(std::map<std::string, std::string>& metadata, const std::string& name,
                std::span<const Encoding> encodings) {
  for (std::size_t i = 0; i < encodings.size(); ++i)
    metadata[name + "." + std::to_string(i)] = JsonWriter().value(encodings[i].tokens).text();
}

std::vector<std::string> read_texts(const std::vector<std::string>& arguments, bool quiet) {
  std::vector<std::string> texts = arguments;
  for (std::string line; arguments.empty() && stdin_lines(quiet).next(line);) texts.push_back(line);
  for (std::size_t i = 0; i < texts.size(); ++i)
    texts[i] = valid_text(texts[i], "line " + std::to_string(i + 1), quiet);
  return texts;
}

bool TextWindows::next(std::vector<std::string>& window) {
  Communicator& world = processes();
  window.clear();
  if (world.is_first()) read(window);
  const std::vector<std::string> all = gather_texts(world, window);
  const auto [begin, end] = heed::part_of(std::ssize(all), world.rank(), world.size());
  window.assign(all.begin() + begin, all.begin() + end);
  first_line_ = next_line_ + static_cast<std::size_t>(begin);
  next_line_ += all.size();
  return !all.empty();
}

void TextWindows::read(std::vector<std::string>& window) {
  const std::size_t most = most_ * static_cast<std::size_t>(processes().size());
  if (arguments_.empty()) {
    StdinLines& lines = stdin_lines(quiet_);
    for (std::string line; window.size() < most && (window.empty() || lines.ready()) && lines.next(line);)
      window.push_back(std::move(line));
  }
  while (at_ < arguments_.size() && window.size() < most) window.push_back(arguments_[at_++]);
}

bool TextWindows::at_end() {
  if (!arguments_.empty()) return at_ == arguments_.size();
  return stdin_lines(quiet_).at_end();
}

TensorMap read_tensors(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  TensorMap tensors;
  for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.get(info.name);
  return tensors;
}

std::vector<std::string> text_arguments(const std::vector<std::string>& arguments, bool quiet) {
  const auto names_nothing = [](const std::string& text) { return named_by(text) == Named::nothing; };
  if (quiet || !processes().is_first() || arguments.empty() ||
      std::any_of(arguments.begin(), arguments.end(), names_nothing))
    return arguments;
  const std::string& first = arguments.front();
  warn(fmt::format("{}: read as a text, {} (for the lines of a file: < FILE)", first,
                   named_by(first) == Named::file ? "not as the file of this name"
                                                  : "though it looks like the name of a file"));
  return arguments;
}

std::vector<std::string> file_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> files = arguments;
  std::replace(files.begin(), files.end(), std::string("-"), std::string(kStandardInput));
  if (std::count(files.begin(), files.end(), kStandardInput) > 1)
    throw UsageError("-: expected the standard input once, got it several times (it holds one file)");
  return files;
}

SoundReader open_sound(const std::string& file, std::int64_t rate, bool quiet) {
  const auto on_warning = [quiet](const std::string& message) {
    if (!quiet) warn(message);
  };
  return SoundReader(std::filesystem::path(file), {.rate = rate, .on_warning = on_warning});
}

std::vector<std::string> read_lines(const std::string& path, bool quiet) {
  std::istringstream stream(read_file(path));
  std::vector<std::string> lines;
  std::size_t invalid = 0, first = 0, replaced = 0;
  for (std::string line; heed::next_line(stream, line);) {
    std::size_t here = 0;
    lines.push_back(replace_invalid_utf8(line, &here));
    if (here == 0) continue;
    if (invalid++ == 0) first = lines.size();
    replaced += here;
  }
  if (invalid > 0 && !quiet) {
    warn(path + ":" + std::to_string(first) + ": " + std::to_string(replaced) + " invalid UTF-8 sequence" +
         (replaced == 1 ? "" : "s") + " replaced" +
         (invalid == 1
              ? ""
              : ", in this and " + std::to_string(invalid - 1) + " later line" + (invalid == 2 ? "" : "s")));
  }
  return lines;
}

CLI::Option* ChatArguments::add_messages_to(CLI::App& command) {
  return command
      .add_option("--messages", messages,
                  "Conversations in place of texts, - for stdin: JSON, a list of messages or an object with "
                  "messages, tools, ...; or one of these a line")
      ->type_name("FILE")
      ->group("Input");
}

void ChatArguments::add_to(CLI::App& command) {
  CLI::Option* file = add_messages_to(command);
  OptionGroup input(command, "Input");
  input.flag("--chat", chat, "Each text is a user's message, put into the form of the model's chat template")
      ->excludes(file);
  input.value("--system", system, "TEXT", "System prompt before each message; implies --chat")
      ->excludes(file);
}

std::vector<GivenChat> read_chats(const std::filesystem::path& file, const char* option) {
  const std::filesystem::path path = file_arguments({file.string()}).front();
  require_file(option, path);
  const std::string text = read_file(path);
  std::string_view rest = text;
  std::size_t number = 0;
  std::string_view line = next_line(rest, number);
  const bool several = is_json(line) && rest.find_first_not_of(kSpaces) != rest.npos;
  std::vector<GivenChat> chats;
  if (!several && !line.empty()) return {{text, shown_name(path)}};
  for (; !line.empty(); line = next_line(rest, number))
    chats.push_back({std::string(line), fmt::format("{}:{}", shown_name(path), number)});
  if (chats.empty()) throw Error(shown_name(path) + ": expected at least one conversation, got none");
  return chats;
}

std::string chat_of(const std::string& text, const std::optional<std::string>& system) {
  JsonWriter json;
  json.begin_array();
  const auto add = [&](const char* role, const std::string& content) {
    json.begin_object().field("role", role).field("content", content).end_object();
  };
  if (system) add("system", *system);
  add("user", text);
  return json.end_array().text();
}

}  // namespace heed::cli
