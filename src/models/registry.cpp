// The list of families. A new one adds its header and its line.
#include "heed/models/registry.h"

#include <functional>
#include <utility>

#include "heed/io/json.h"
#include "heed/models/albert.h"
#include "heed/models/bart.h"
#include "heed/models/bert.h"
#include "heed/models/bloom.h"
#include "heed/models/distilbert.h"
#include "heed/models/gpt2.h"
#include "heed/models/gpt_neox.h"
#include "heed/models/llama.h"
#include "heed/models/marian.h"
#include "heed/models/mistral.h"
#include "heed/models/mpt.h"
#include "heed/models/qwen2.h"
#include "heed/models/roberta.h"
#include "heed/models/t5.h"
#include "heed/models/vit.h"
#include "heed/models/whisper.h"
#include "heed/text/tokenizer.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct Family {
  const char* model_type;
  std::function<std::unique_ptr<Model>(const fs::path&, DType)> load;
  std::function<std::unique_ptr<Model>(const Config&, Generator&)> make;
};

const std::vector<Family>& families() {
  static const std::vector<Family> list = {
      {"albert", load_albert, make_albert},
      {"bart", load_bart, make_bart},
      {"bert", load_bert, make_bert},
      {"bloom", load_bloom, make_bloom},
      {"camembert", load_roberta, make_roberta},
      {"distilbert", load_distilbert, make_distilbert},
      {"gpt2", load_gpt2, make_gpt2},
      {"gpt_neox", load_gpt_neox, make_gpt_neox},
      {"llama", load_llama, make_llama},
      {"mistral", load_mistral, make_mistral},
      {"mpt", load_mpt, make_mpt},
      {"qwen2", load_qwen2, make_qwen2},
      {"marian", load_marian,
       [](const Config& config, Generator& g) { return make_marian(MarianConfig::parse(config), g); }},
      {"mbart", load_bart, make_bart},
      {"mt5", load_t5, make_t5},
      {"roberta", load_roberta, make_roberta},
      {"t5", load_t5, make_t5},
      {"vit", load_vit, make_vit},
      {"whisper", load_whisper, make_whisper},
      {"xlm-roberta", load_roberta, make_roberta},
  };
  return list;
}

const Family& family_of(const Config& config) {
  const std::string type = config.required_string("model_type");
  std::string known;
  for (const Family& family : families()) {
    if (type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw Error(config.where() + ": model_type: expected one of " + known + ", got \"" + type + "\"");
}

}  // namespace

std::vector<std::string> model_families() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.model_type);
  return names;
}

Config load_model_config(const fs::path& directory) {
  std::error_code error;
  if (fs::is_directory(directory, error) && !fs::exists(directory / "config.json", error)) {
    throw Error(directory.string() +
                ": no model: config.json not found in it (give a model's directory; heed pull OWNER/MODEL "
                "downloads one)");
  }
  return Config::load(directory / "config.json");
}

std::unique_ptr<Model> load_model(const fs::path& directory, DType dtype) {
  return family_of(load_model_config(directory)).load(directory, dtype);
}

std::unique_ptr<Model> make_model(const Config& config, Generator& generator) {
  return family_of(config).make(config, generator);
}

std::unique_ptr<EncoderDecoderModel> load_encoder_decoder(const fs::path& directory, DType dtype) {
  std::unique_ptr<Model> model = load_model(directory, dtype);
  auto* encoder_decoder = dynamic_cast<EncoderDecoderModel*>(model.get());
  if (encoder_decoder == nullptr) {
    throw Error(directory.string() + ": expected an encoder-decoder model, got " + model->family());
  }
  (void)model.release();
  return std::unique_ptr<EncoderDecoderModel>(encoder_decoder);
}

std::unique_ptr<DecoderModel> load_decoder(const fs::path& directory, DType dtype) {
  std::unique_ptr<Model> model = load_model(directory, dtype);
  auto* decoder = dynamic_cast<DecoderModel*>(model.get());
  if (decoder == nullptr) {
    throw Error(directory.string() + ": expected a model that continues text, got " + model->family());
  }
  (void)model.release();
  return std::unique_ptr<DecoderModel>(decoder);
}

std::optional<std::int64_t> trained_length(const Model& model, const Tokenizer& tokenizer) {
  const auto positions = model.trained_positions();
  return positions ? positions : tokenizer.model_max_length();
}

}  // namespace heed
