// The Mixtral family (Jiang et al. 2024, "Mixtral of experts"): Mistral with a mixture of experts in every
// layer. Its parts are those of llama_common.h.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_mixtral(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(
      json, {.kv_heads = 8, .positions = 131072, .norm_eps = 1e-5, .rope = {.theta_default = 1e6}});
  c.windows.assign(c.windows.size(), integer_or_null(json, "sliding_window", 0, 0));
  c.experts = ExpertsConfig::parse(json, c.layers, 8, 2);
  c.experts.d_ff = c.d_ff;
  c.experts.block = "block_sparse_moe";
  c.experts.gate = "w1";
  c.experts.up = "w3";
  c.experts.down = "w2";
  if (json.number("router_jitter_noise", 0) != 0)
    json.fail("router_jitter_noise", "0, as heed trains without noise in the router");
  return c;
}

}  // namespace

Family mixtral_family() { return family<parse_mixtral, build_llama>({"mixtral"}); }

}  // namespace heed
