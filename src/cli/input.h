// The texts a command works on: its arguments, or else the lines of stdin.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heed::cli {

/// `arguments` if there are any; otherwise every line of stdin, without its end. Line ends may be LF or CR LF.
std::vector<std::string> read_texts(const std::vector<std::string>& arguments);

/// All lines of a file.
std::vector<std::string> read_lines(const std::string& path);

/// "1,2,3" as ids. Throws UsageError for anything else.
std::vector<std::int64_t> parse_ids(const std::string& list);

}  // namespace heed::cli
