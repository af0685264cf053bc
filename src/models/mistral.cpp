// The Mistral family: its config; table and parts are those of llama_layout.h.
#include "heed/models/mistral.h"

#include "models/config_fields.h"
#include "models/llama_layout.h"
#include "models/rope_config.h"

namespace heed {
namespace {

LlamaShape mistral_shape(const Config& json) {
  LlamaShape s = LlamaShape::parse(json, 8);
  s.positions = json.positive_integer("max_position_embeddings", 131072);
  s.rotary = rotary_options(json, s.head_dim, s.positions);
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  s.windows.assign(s.windows.size(), window);
  ignore_common_keys(json);
  return s;
}

}  // namespace

std::unique_ptr<DecoderModel> load_mistral(const std::filesystem::path& directory, DType dtype) {
  return load_llama_like(directory, dtype, mistral_shape);
}

std::unique_ptr<DecoderModel> make_mistral(const Config& config, Generator& generator) {
  return make_llama_like(config, generator, mistral_shape);
}

}  // namespace heed
