// Models by the model_type of their config.json.
#include "heed/models/registry.h"

#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "core/strings.h"
#include "files/input_file.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/models/kind.h"
#include "heed/text/tokenizer.h"
#include "models/adapter_config.h"
#include "models/adapters.h"
#include "models/encoder.h"
#include "models/families.h"
#include "models/labels.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

const std::vector<Family>& families() {
#define HEED_RECORD(name) name##_family(),
  static const std::vector<Family> list = {HEED_FAMILIES(HEED_RECORD)};
#undef HEED_RECORD
  return list;
}

const Family& family_of(const Config& config) {
  const std::string type = config.required_string("model_type");
  std::set<std::string> known;
  for (const Family& family : families()) {
    for (const std::string& name : family.model_types) {
      if (type == name) return family;
      known.insert(name);
    }
  }
  throw Error(config.where() + ": model_type: expected one of " + joined(known) + ", got \"" + type + "\"");
}

std::unique_ptr<Model> build_model(WeightSource source) {
  const Family& family = family_of(source.config);
  source.initializer_range = family.initializer_range;
  return family.build(source);
}

std::unique_ptr<Model> load_by_config(const Config& config, const ModelFiles& files,
                                      const WeightOptions& options,
                                      const std::vector<AdapterSource>& adapters) {
  Generator head;  // of which an adapter replaces every row
  std::unique_ptr<Model> model = build_model({.config = config,
                                              .files = files,
                                              .dtype = options.dtype,
                                              .adapters = adapters,
                                              .generator = adapters.empty() ? nullptr : &head,
                                              .separate_output = options.separate_output});
  if (model->use_activations(options.activations) == 0 && options.activations == Activations::int8)
    throw Error(files.where() +
                ": int8 activations: expected a model with weights quantized to integers, got none (heed "
                "convert --bits 8 makes one)");
  return model;
}

// The number of labels that an adapter's head predicts, if it holds one.
std::optional<std::int64_t> label_count(const fs::path& adapter) {
  const SafetensorsFile file = SafetensorsFile::open(adapter / kAdapterTensors);
  for (const TensorInfo& info : file.tensors()) {
    for (const char* output : {".classifier.weight", ".classifier.out_proj.weight", ".score.weight"}) {
      if (info.name.ends_with(output) && info.shape.size() == 2) return info.shape.front();
    }
  }
  return std::nullopt;
}

// The config of a model with the head that an adapter without a config.json was trained for.
Config config_by_task(const Config& config, const fs::path& adapter) {
  static const std::map<std::string, std::string> endings = {{"SEQ_CLS", "ForSequenceClassification"},
                                                             {"TOKEN_CLS", "ForTokenClassification"},
                                                             {"QUESTION_ANS", "ForQuestionAnswering"}};
  const auto ending = endings.find(AdapterConfig::load(adapter).task_type);
  if (ending == endings.end()) return config;
  Config with_head = config;
  const std::vector<std::string> architectures = config.strings("architectures");
  const std::string architecture = class_with_head(config, ending->second);
  if (architectures.empty() || encoder_head_named(architectures.front()) != encoder_head_named(architecture))
    with_head = config.with("{\"architectures\": [\"" + architecture + "\"]}");
  const std::optional<std::int64_t> labels = label_count(adapter);
  if (!labels || std::ssize(label_names(with_head)) == *labels) return with_head;
  return with_head.with(R"({"id2label": null, "label2id": null, "num_labels": )" + std::to_string(*labels) +
                        "}");
}

// The config of a model with the head that its adapters were trained with.
Config config_with_head(const Config& config, const std::vector<AdapterSource>& adapters) {
  for (const AdapterSource& source : adapters) {
    if (!has_entry(source.directory / "config.json")) continue;
    Config own = Config::load(source.directory / "config.json");
    const std::string type = config.required_string("model_type");
    if (own.required_string("model_type") != type)
      throw Error(own.where() + ": model_type: expected " + type + ", as the model has, got " +
                  own.required_string("model_type") + " (the adapter belongs to another model)");
    return own;
  }
  return adapters.empty() ? config : config_by_task(config, adapters.front().directory);
}

template <class Kind>
std::unique_ptr<Kind> of_kind(std::unique_ptr<Model> model, const std::string& where) {
  constexpr const char* expected = std::is_same_v<Kind, DecoderModel>   ? "a model that continues text"
                                   : std::is_same_v<Kind, EncoderModel> ? "an encoder model"
                                                                        : "an encoder-decoder model";
  auto* kind = as<Kind>(*model);
  if (kind == nullptr) throw Error(where + ": expected " + expected + ", got " + model->family());
  (void)model.release();
  return std::unique_ptr<Kind>(kind);
}

// The config of an encoder without its head.
Config config_without_head(const Config& config) {
  const std::vector<std::string> architectures = config.strings("architectures");
  const bool bare = architectures.empty() || encoder_head_named(architectures.front()) == EncoderHead::none;
  return config.with(bare ? "{}" : R"({"architectures": ["Model"]})");
}

}  // namespace

Config load_model_config(const ModelFiles& files) {
  std::error_code error;
  const fs::path path = files.path();
  if (fs::is_directory(path, error) && !fs::exists(path / "config.json", error)) {
    if (is_adapter(path)) throw_adapter(files.where());
    throw Error(files.where() +
                ": no model: config.json not found in it (give a model's directory; heed pull OWNER/MODEL "
                "downloads one)");
  }
  return Config::load(files, "config.json");
}

Config load_model_config(const fs::path& directory) { return load_model_config(model_files(directory)); }

std::unique_ptr<Model> load_model(const ModelFiles& files, const WeightOptions& options,
                                  const std::vector<AdapterSource>& adapters) {
  const Config config = load_model_config(files);
  return load_by_config(options.head ? config_with_head(config, adapters) : config_without_head(config),
                        files, options, adapters);
}

std::unique_ptr<Model> load_model(const fs::path& directory, const WeightOptions& options,
                                  const std::vector<AdapterSource>& adapters) {
  return load_model(model_files(directory), options, adapters);
}

std::unique_ptr<Model> load_model(const LocatedModel& located, const WeightOptions& options) {
  std::unique_ptr<Model> model = load_model(located.directory, options, located.adapters);
  steer_model(*model, located.steering);
  return model;
}

std::unique_ptr<Model> make_model(const Config& config, Generator& generator) {
  return build_model({.config = config, .generator = &generator});
}

std::string class_with_head(const Config& config, const std::string& head) {
  const Family& family = family_of(config);
  const std::string type = config.required_string("model_type");
  for (std::size_t i = 0; i < family.class_names.size(); ++i) {
    if (family.model_types[i] == type) return family.class_names[i] + head;
  }
  throw Error(config.where() + ": model_type: expected a family of encoders with heads, got " + type);
}

std::unique_ptr<EncoderModel> load_encoder(const fs::path& directory, const Config& config,
                                           Generator& new_head) {
  return of_kind<EncoderModel>(
      build_model({.config = config, .files = model_files(directory), .generator = &new_head}),
      directory.string());
}

template <class Kind>
std::unique_ptr<Kind> load_as(const fs::path& directory, DType dtype) {
  return of_kind<Kind>(load_model(directory, dtype), directory.string());
}

template <class Kind>
std::unique_ptr<Kind> make_as(const Config& config, Generator& generator) {
  return of_kind<Kind>(make_model(config, generator), config.where());
}

template std::unique_ptr<DecoderModel> load_as(const fs::path&, DType);
template std::unique_ptr<EncoderModel> load_as(const fs::path&, DType);
template std::unique_ptr<EncoderDecoderModel> load_as(const fs::path&, DType);
template std::unique_ptr<DecoderModel> make_as(const Config&, Generator&);
template std::unique_ptr<EncoderModel> make_as(const Config&, Generator&);
template std::unique_ptr<EncoderDecoderModel> make_as(const Config&, Generator&);

std::optional<std::int64_t> trained_length(const Model& model, const Tokenizer& tokenizer) {
  const auto positions = model.trained_positions();
  return positions ? positions : tokenizer.model_max_length();
}

}  // namespace heed
