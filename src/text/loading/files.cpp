#include "text/loading/files.h"

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"

namespace heed {

Json read_json_object(const ModelFiles& from, std::string_view name) {
  const std::string where = from.where(name);
  Json json = parse_json(from.text(name, file_limits::kTokenizerConfig), where, kTokenizerJson);
  if (!json.is_object()) JsonField(json, where).fail("an object");
  return json;
}

}  // namespace heed
