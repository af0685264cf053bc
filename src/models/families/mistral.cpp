// The Mistral family: its config; the parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_mistral(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {.kv_heads = 8, .positions = 131072});
  const std::int64_t window = integer_or_null(json, "sliding_window", 0, 4096);
  c.windows.assign(c.windows.size(), window);
  return c;
}

}  // namespace

Family mistral_family() { return family<parse_mistral, build_llama>({"mistral"}); }

}  // namespace heed
