// Takes forms apart.
#include "server/messages.h"

#include <algorithm>

#include "core/strings.h"
#include "heed/error.h"

namespace heed::server {
namespace {

constexpr std::size_t kMostParts = 64, kMostHeaderBytes = 8 << 10, kMostBoundary = 70;
constexpr std::string_view kFormType = "multipart/form-data", kLineEnd = "\r\n";

[[noreturn]] void refuse_form(const std::string& expected) { throw Error("request: expected " + expected); }

bool same_word(std::string_view given, std::string_view lower) { return ascii_lower(given) == lower; }

// The value of a parameter: `value; name=word; other="quoted \" text"`.
std::optional<std::string> parameter_in(std::string_view header, std::string_view name) {
  std::size_t at = std::min(header.find(';'), header.size());
  while (at < header.size()) {
    const std::size_t sign = header.find('=', at);
    if (sign == header.npos) return {};
    const std::string_view key = trimmed(header.substr(at + 1, sign - at - 1));
    std::string value;
    at = sign + 1;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        const bool escaped =
            header[at] == '\\' && at + 1 < header.size() && (header[at + 1] == '"' || header[at + 1] == '\\');
        if (escaped) ++at;
        value += header[at];
      }
      if (at == header.size()) return {};
      at = std::min(header.find(';', at), header.size());
    } else {
      const std::size_t end = std::min(header.find(';', at), header.size());
      value = trimmed(header.substr(at, end - at));
      at = end;
    }
    if (same_word(key, name)) return value;
  }
  return {};
}

// Takes the headers of a part, up to the empty line, from the front of `rest`.
FormPart read_headers(std::string_view& rest) {
  FormPart part;
  bool is_named = false;
  const std::string_view all = rest.substr(0, kMostHeaderBytes);
  for (std::size_t at = 0;;) {
    const std::size_t end = all.find(kLineEnd, at);
    if (end == all.npos) refuse_form("headers of a part, then an empty line");
    const std::string_view line = all.substr(at, end - at);
    at = end + kLineEnd.size();
    if (line.empty()) {
      if (!is_named) refuse_form("Content-Disposition: form-data; name=\"…\" of each part");
      rest.remove_prefix(at);
      return part;
    }
    const std::size_t colon = line.find(':');
    if (colon == line.npos) refuse_form("headers of a part, then an empty line");
    if (!same_word(trimmed(line.substr(0, colon)), "content-disposition")) continue;
    const std::string_view value = line.substr(colon + 1);
    const auto name = parameter_in(value, "name");
    if (!same_word(trimmed(value.substr(0, value.find(';'))), "form-data") || !name) continue;
    is_named = true;
    part.name = *name;
    part.file = parameter_in(value, "filename");
  }
}

}  // namespace

bool is_form(std::string_view content_type) {
  return same_word(trimmed(content_type.substr(0, content_type.find(';'))), kFormType);
}

std::vector<FormPart> parse_form(std::string_view content_type, std::string_view body) {
  if (!is_form(content_type)) refuse_form("a body of type multipart/form-data");
  const std::string boundary = parameter_in(content_type, "boundary").value_or("");
  if (boundary.empty() || boundary.size() > kMostBoundary)
    refuse_form("a boundary of 1 to 70 characters in the header Content-Type");
  const std::string mark = "\r\n--" + boundary;
  std::string_view rest = body;
  if (!rest.starts_with(std::string_view(mark).substr(kLineEnd.size())))
    refuse_form("a body that begins with its boundary");
  rest.remove_prefix(mark.size() - kLineEnd.size());
  std::vector<FormPart> parts;
  while (!rest.starts_with("--")) {
    if (!rest.starts_with(kLineEnd)) refuse_form("a line end, or -- after the last part, behind a boundary");
    if (parts.size() == kMostParts) refuse_form("at most " + std::to_string(kMostParts) + " parts");
    rest.remove_prefix(kLineEnd.size());
    FormPart part = read_headers(rest);
    const std::size_t end = rest.find(mark);
    if (end == rest.npos) refuse_form("a boundary after each part");
    part.content = rest.substr(0, end);
    rest.remove_prefix(end + mark.size());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace heed::server
