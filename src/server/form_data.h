// Bodies of type multipart/form-data (RFC 7578), as browsers and clients send files with fields.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::server {

struct FormPart {
  std::string name;
  std::optional<std::string> file;  ///< the name of a file
  std::string_view content;         ///< any bytes
};

/// Whether a header Content-Type says so.
bool is_form(std::string_view content_type);

/// The parts of a body, in their order, which refer to it. Throws Error `request: expected …` for another
/// type, a body that is not whole, more than 64 parts, and a part with more than 8 KiB of headers.
std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body);

}  // namespace heed::server
