// Answers in fewer bytes: gzip, for clients that take it.
#pragma once

#include <string>
#include <string_view>

namespace heed::server {

/// Whether a header Accept-Encoding (RFC 9110, 12.5.3) has gzip, and prefers nothing to it.
bool accepts_gzip(std::string_view header);

/// A text as a gzip file (RFC 1952), of level 1: answers are compressed once and read once. May pause
/// (pause_point()).
std::string gzipped(std::string_view text);

}  // namespace heed::server
