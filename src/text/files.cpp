#include "text/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/input_file.h"
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

nlohmann::ordered_json read_json_object(const std::filesystem::path& path) {
  nlohmann::ordered_json json =
      parse_json(read_regular_file(path, file_limits::kTokenizerConfig), path.string(), kTokenizerJson);
  if (!json.is_object()) {
    throw Error(fmt::format("{}: expected a JSON object, got {}", path.string(), json.type_name()));
  }
  return json;
}

}  // namespace heed
