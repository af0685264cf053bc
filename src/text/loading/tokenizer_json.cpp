// Parses a whole tokenizer.json.
#include <fmt/format.h>

#include "heed/error.h"
#include "text/loading/loaders.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/pipeline_tokenizer.h"
#include "text/pipeline/stages.h"

namespace heed {
namespace {

bool is_left(const JsonField& section) {
  const auto direction = section.find("direction");
  if (!direction) return false;
  const std::string& name = direction->string();
  if (name != "Left" && name != "Right") direction->fail("Left or Right");
  return name == "Left";
}

Truncation parse_truncation(const JsonField& section) {
  Truncation truncation;
  truncation.max_length = section.at("max_length").integer(0, INT32_MAX);
  truncation.stride = section.integer("stride", 0, INT32_MAX, 0);
  truncation.left = is_left(section);
  if (const auto strategy = section.find("strategy")) {
    const std::string& name = strategy->string();
    if (name == "OnlyFirst") truncation.strategy = Truncation::Strategy::only_first;
    if (name == "OnlySecond") truncation.strategy = Truncation::Strategy::only_second;
    if (name != "OnlyFirst" && name != "OnlySecond" && name != "LongestFirst") {
      strategy->fail("LongestFirst, OnlyFirst or OnlySecond");
    }
  }
  return truncation;
}

Padding parse_padding(const JsonField& section) {
  Padding padding;
  if (const auto strategy = section.find("strategy")) {
    if (strategy->value().is_object()) {
      // Texts are padded to this length, so it is limited to what fits in memory.
      padding.length = strategy->at("Fixed").integer(0, 1 << 24);
    } else if (strategy->string() != "BatchLongest") {
      strategy->fail("BatchLongest or an object with Fixed");
    }
  }
  padding.multiple_of = section.integer("pad_to_multiple_of", 0, 1 << 24, 0);
  padding.pad_id = section.integer("pad_id", 0, INT32_MAX, 0);
  padding.pad_type_id = section.integer("pad_type_id", 0, INT32_MAX, 0);
  padding.pad_token = section.string("pad_token", "[PAD]");
  padding.left = is_left(section);
  return padding;
}

void parse_added_tokens(const JsonField& list, Pipeline& pipeline) {
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const JsonField entry = list.at(i);
    const auto id = static_cast<std::int32_t>(entry.at("id").integer(0, INT32_MAX));
    pipeline.added.add(parse_added_token(entry, id), pipeline.model->vocabulary());
  }
}

// SigLIP 2 was trained on texts in small letters. Its tokenizer is Gemma's, whose file does not make them
// small; transformers does, by the class or, where that is Gemma's, by the model's type.
bool is_siglip2(const ModelFiles& from, const TokenizerConfig& config) {
  const std::string& name = config.tokenizer_class;
  if (name == "Siglip2Tokenizer") return true;
  constexpr const char* kConfig = "config.json";
  if ((name != "GemmaTokenizer" && name != "GemmaTokenizerFast") || !from.has(kConfig)) return false;
  const nlohmann::ordered_json json = read_json_object(from, kConfig);
  return JsonField(json, from.where(kConfig)).string("model_type", "") == "siglip2";
}

}  // namespace

Pipeline parse_pipeline(const JsonField& document) {
  if (const auto version = document.find("version"); version && version->string() != "1.0")
    version->fail("1.0");
  Pipeline pipeline;
  pipeline.where = document.where();
  pipeline.model = parse_model(document.at("model"));
  if (const auto section = document.find("normalizer")) pipeline.normalizer = parse_normalizer(*section);
  if (const auto section = document.find("pre_tokenizer"))
    pipeline.pre_tokenizer = parse_pre_tokenizer(*section);
  if (const auto section = document.find("post_processor"))
    pipeline.post_processor = parse_post_processor(*section);
  if (const auto section = document.find("decoder")) pipeline.decoder = parse_decoder(*section);
  if (const auto section = document.find("added_tokens")) parse_added_tokens(*section, pipeline);
  if (const auto section = document.find("truncation")) pipeline.truncation = parse_truncation(*section);
  if (const auto section = document.find("padding")) pipeline.padding = parse_padding(*section);
  return pipeline;
}

std::unique_ptr<Tokenizer> load_tokenizer_json(const ModelFiles& from, const char* name) {
  TokenizerFiles files;
  const std::string where = from.where(name);
  const nlohmann::ordered_json json = parse_json(files.read(from, name), where, kTokenizerJson);
  Pipeline pipeline = parse_pipeline(JsonField(json, where));
  for (const char* other : {"tokenizer_config.json", "special_tokens_map.json"})
    files.read_config(from, other);
  files.read_chat_templates(from);
  TokenizerConfig config = TokenizerConfig::load(from);
  if (is_siglip2(from, config)) pipeline.normalizer = lowercase_before(std::move(pipeline.normalizer));
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
}

}  // namespace heed
