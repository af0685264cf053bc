// Loading and saving whole directories.
#include "models/model_files.h"

#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "models/adapter_config.h"
#include "models/config_fields.h"

namespace heed {
namespace {

// What generation needs to know of a new model.
std::string generation_of(const Config& config) {
  JsonWriter json(2);
  json.begin_object();
  for (const char* key : {"bos_token_id", "decoder_start_token_id", "eos_token_id", "forced_bos_token_id",
                          "forced_eos_token_id", "pad_token_id"}) {
    const std::vector<std::int64_t> ids = config.integers(key);
    if (ids.size() == 1) json.field(key, ids.front());
    if (ids.size() > 1) json.field(key, ids);
  }
  return json.end_object().text() + "\n";
}

// The standard deviation of new matrices, by the config or the family.
void set_initializer_range(const Config& config, TensorTable& table, double family_range) {
  const char* key = config.has("init_std") ? "init_std" : "initializer_range";
  if (config.has(key)) family_range = positive_number(config, key, family_range);
  if (family_range > 0) set_deviation(table, family_range);
}

}  // namespace

ModelFiles ModelFiles::load(const Config& config, const std::filesystem::path& directory, DType dtype,
                            TableOfConfig table, double initializer_range, Generator* new_head) {
  if (is_adapter(directory)) throw_adapter(directory);
  std::optional<TensorFiles> files;  // opened once the config is read, whose errors come first
  const auto open = [&]() -> const TensorFiles& {
    if (!files) files = TensorFiles::open(directory);
    return *files;
  };
  TensorTable rows = table(config, [&](const std::string& name) { return open().contains(name); });
  if (new_head != nullptr) set_initializer_range(config, rows, initializer_range);
  const std::filesystem::path generation = directory / "generation_config.json";
  return {config, has_entry(generation) ? read_regular_file(generation, file_limits::kConfig) : std::string(),
          Weights::load(open(), rows, dtype, new_head)};
}

ModelFiles ModelFiles::make(const Config& config, Generator& generator, TableOfConfig table,
                            double initializer_range) {
  TensorTable rows = table(config, [](const std::string&) { return true; });
  set_initializer_range(config, rows, initializer_range);
  refuse_unknown_keys(config);
  return {config, "", Weights::initialise(rows, generator)};
}

void ModelFiles::save(const std::filesystem::path& directory, DType dtype, bool generates) const {
  if (!trained && weights.is_adapted())
    throw Error(config.where() +
                ": expected a model without adapters to save, got one with (merge them first)");
  write_file(directory / "config.json", config_for_saving(config, dtype) + "\n");
  if (trained) return trained->save(directory, dtype);
  if (generates)
    write_file(directory / "generation_config.json", generation.empty() ? generation_of(config) : generation);
  save_safetensors(directory / "model.safetensors", weights.stored(dtype));
}

}  // namespace heed
