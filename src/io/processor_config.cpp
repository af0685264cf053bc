#include "io/processor_config.h"

#include "files/input_file.h"
#include "heed/error.h"

namespace heed {

Config load_processor_config(const std::filesystem::path& directory, const char* key,
                             const std::string& tells) {
  const auto processor = directory / "processor_config.json",
             preprocessor = directory / "preprocessor_config.json";
  if (has_entry(processor)) {
    const Config json = Config::load(processor);
    if (auto found = json.optional_sub(key)) return *found;
  }
  if (!has_entry(preprocessor))
    throw Error(preprocessor.string() + ": not found (it tells " + tells + "; it comes with the model)");
  return Config::load(preprocessor);
}

}  // namespace heed
