#include "io/processor_config.h"

#include "heed/error.h"

namespace heed {

Config load_processor_config(const ModelFiles& model, const char* key, const std::string& tells) {
  constexpr const char *kProcessor = "processor_config.json", *kPreprocessor = "preprocessor_config.json";
  if (model.has(kProcessor)) {
    const Config json = Config::load(model, kProcessor);
    if (auto found = json.optional_sub(key)) return *found;
  }
  if (!model.has(kPreprocessor))
    throw Error(model.where(kPreprocessor) + ": not found (it tells " + tells + "; it comes with the model)");
  return Config::load(model, kPreprocessor);
}

std::int64_t integer_within(const Config& json, std::string_view name, std::int64_t least, std::int64_t most,
                            std::int64_t default_value) {
  const std::int64_t value = json.integer(name, default_value);
  if (value < least || value > most)
    json.fail(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

}  // namespace heed
