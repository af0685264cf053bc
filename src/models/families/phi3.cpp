// The Phi-3 family (Abdin et al. 2024, "Phi-3 technical report"; Phi-3.5 and Phi-4 as well): its config;
// the parts are those of llama_common.h, with fused projections.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_phi3(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(
      json,
      {.positions = 4096, .norm_eps = 1e-5, .padding = 32000, .rope = {.partial = "partial_rotary_factor"}});
  c.fused_projections = true;
  c.dropout = probability(json, "resid_pdrop", 0);
  if (c.rotary.scaling.kind == RotaryScalingKind::longrope)
    c.recompute_beyond = c.rotary.scaling.original_length;
  c.windows.assign(c.windows.size(), integer_or_null(json, "sliding_window", 0, 0));
  // Phi3ForCausalLM reads none of these.
  json.ignore({"attention_bias", "embd_pdrop", "full_attn_mod", "interpolate_factor", "lm_head_bias",
               "mlp_bias", "original_max_position_embeddings"});
  return c;
}

}  // namespace

Family phi3_family() { return family<parse_phi3, build_llama>({"phi3"}); }

}  // namespace heed
