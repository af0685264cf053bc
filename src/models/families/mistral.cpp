// The Mistral family: its config; the parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

LlamaConfig parse_mistral(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 8);
  c.positions = json.positive_integer("max_position_embeddings", 131072);
  c.rotary = rotary_options(json, c.head_dim, c.positions);
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  c.windows.assign(c.windows.size(), window);
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family mistral_family() { return family<parse_mistral, build_llama>({"mistral"}); }

}  // namespace heed
