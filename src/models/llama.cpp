// The LLaMA family: its config; table and parts are those of llama_layout.h.
#include "heed/models/llama.h"

#include "models/config_fields.h"
#include "models/llama_layout.h"
#include "models/rope_config.h"

namespace heed {
namespace {

LlamaShape llama_shape(const Config& json) {
  LlamaShape s = LlamaShape::parse(json, 0);
  s.qkv_bias = s.out_bias = json.boolean("attention_bias", false);
  s.mlp_bias = json.boolean("mlp_bias", false);
  s.positions = json.positive_integer("max_position_embeddings", 2048);
  s.rotary = rotary_options(json, s.head_dim, s.positions);
  ignore_common_keys(json);
  return s;
}

}  // namespace

std::unique_ptr<DecoderModel> load_llama(const std::filesystem::path& directory, DType dtype) {
  return load_llama_like(directory, dtype, llama_shape);
}

std::unique_ptr<DecoderModel> make_llama(const Config& config, Generator& generator) {
  return make_llama_like(config, generator, llama_shape);
}

}  // namespace heed
