// The texts a command works on: its arguments, the lines of stdin, or those of a file.
#pragma once

#include <string>
#include <vector>

namespace heed::cli {

/// The next line of stdin, without its end (LF or CR LF); false after the last. Throws Error when stdin
/// cannot be read.
bool next_line(std::string& line);

/// `text` with invalid UTF-8 replaced, which is told under the name `where` unless `quiet`.
std::string valid_text(const std::string& text, const std::string& where, bool quiet);

/// `arguments` if there are any, otherwise every line of stdin; all of them valid_text.
std::vector<std::string> read_texts(const std::vector<std::string>& arguments, bool quiet);

/// All lines of a file, valid_text.
std::vector<std::string> read_lines(const std::string& path, bool quiet);

}  // namespace heed::cli
