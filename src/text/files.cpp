#include "text/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/input_file.h"
#include "core/json_field.h"
#include "heed/error.h"

namespace heed {

void write_text_file(const std::filesystem::path& path, std::string_view content) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) {
    throw Error(
        fmt::format("{}: cannot write {} bytes: {}", path.string(), content.size(), std::strerror(errno)));
  }
}

Json read_json_object(const std::filesystem::path& path) {
  Json json =
      parse_json(read_regular_file(path, file_limits::kTokenizerConfig), path.string(), kTokenizerJson);
  if (!json.is_object()) JsonField(json, path.string()).fail("an object");
  return json;
}

}  // namespace heed
