#include "text/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "heed/error.h"

namespace heed {

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw Error(fmt::format("{}: expected a file, got none (check the path)", path.string()));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(fmt::format("{}: expected a regular file, got something else", path.string()));
  }
  std::ifstream in(path, std::ios::binary);
  const auto size = std::filesystem::file_size(path, error);
  if (!in || error) {
    throw Error(fmt::format("{}: expected a readable file, got: {}", path.string(), std::strerror(errno)));
  }
  std::string content(size, '\0');
  in.read(content.data(), static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(in.gcount()) != size) {
    throw Error(fmt::format("{}: expected {} bytes, got {} (did the file change?)", path.string(), size,
                            in.gcount()));
  }
  return content;
}

void write_text_file(const std::filesystem::path& path, std::string_view content) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) {
    throw Error(fmt::format("{}: expected to write {} bytes, got: {}", path.string(), content.size(),
                            std::strerror(errno)));
  }
}

nlohmann::ordered_json read_json_object(const std::filesystem::path& path) {
  nlohmann::ordered_json json = parse_json(read_text_file(path), path.string());
  if (!json.is_object()) {
    throw Error(fmt::format("{}: expected a JSON object, got {}", path.string(), json.type_name()));
  }
  return json;
}

}  // namespace heed
