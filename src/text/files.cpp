#include "text/files.h"

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"

namespace heed {

Json read_json_object(const std::filesystem::path& path) {
  Json json =
      parse_json(read_regular_file(path, file_limits::kTokenizerConfig), path.string(), kTokenizerJson);
  if (!json.is_object()) JsonField(json, path.string()).fail("an object");
  return json;
}

}  // namespace heed
