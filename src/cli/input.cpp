// Reading what the user gave.
#include "cli/input.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "cli/terminal.h"
#include "heed/error.h"
#include "heed/io/file.h"
#include "heed/text/unicode.h"

namespace heed::cli {
namespace {

constexpr char kMark = '\x1f';

std::string without_mark(const std::string& word) {
  return !word.empty() && word.front() == kMark ? word.substr(1) : word;
}

bool read_line(std::istream& stream, std::string& line) {
  if (!std::getline(stream, line)) return false;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return true;
}

}  // namespace

std::vector<std::string> with_brackets_kept(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (std::string& word : words) {
    if (word.size() > 1 && word.front() == '[' && word.back() == ']') word.insert(word.begin(), kMark);
  }
  return words;
}

bool next_line(std::string& line) {
  if (read_line(std::cin, line)) return true;
  if (std::ferror(stdin) != 0)
    throw Error("stdin: expected text, got an error while reading (is it a folder?)");
  return false;
}

std::string valid_text(const std::string& text, const std::string& where, bool quiet) {
  std::size_t replaced = 0;
  std::string valid = replace_invalid_utf8(without_mark(text), &replaced);
  if (replaced > 0 && !quiet) {
    warn(where + ": " + std::to_string(replaced) + " invalid UTF-8 sequence" + (replaced == 1 ? "" : "s") +
         " replaced");
  }
  return valid;
}

std::vector<std::string> read_texts(const std::vector<std::string>& arguments, bool quiet) {
  std::vector<std::string> texts;
  for (const std::string& word : arguments) texts.push_back(without_mark(word));
  for (std::string line; arguments.empty() && next_line(line);) texts.push_back(line);
  for (std::size_t i = 0; i < texts.size(); ++i)
    texts[i] = valid_text(texts[i], "line " + std::to_string(i + 1), quiet);
  return texts;
}

bool TextWindows::next(std::vector<std::string>& window) {
  const std::size_t size = arguments_.empty() && isatty(STDIN_FILENO) == 1 ? 1 : 2048;
  window.clear();
  while (window.size() < size) {
    std::string line;
    if (!arguments_.empty()) {
      if (at_ == arguments_.size()) break;
      line = without_mark(arguments_[at_++]);
    } else if (!next_line(line)) {
      break;
    }
    window.push_back(std::move(line));
  }
  return !window.empty();
}

std::vector<std::string> read_lines(const std::string& path, bool quiet) {
  std::istringstream stream(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; read_line(stream, line);) {
    lines.push_back(valid_text(line, path + ":" + std::to_string(lines.size() + 1), quiet));
  }
  return lines;
}

}  // namespace heed::cli
