#include "text/files.h"

#include <fmt/format.h>

#include "files/input_file.h"
#include "heed/error.h"

namespace heed {

nlohmann::ordered_json read_json_object(const std::filesystem::path& path) {
  nlohmann::ordered_json json =
      parse_json(read_regular_file(path, file_limits::kTokenizerConfig), path.string(), kTokenizerJson);
  if (!json.is_object()) {
    throw Error(fmt::format("{}: expected a JSON object, got {}", path.string(), json.type_name()));
  }
  return json;
}

}  // namespace heed
