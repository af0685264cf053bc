// The Phi-3 family (Abdin et al. 2024, "Phi-3 technical report"; Phi-3.5 and Phi-4 as well): its config;
// the parts are those of llama_common.h, with fused projections.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/llama_common.h"
#include "models/families/rope_config.h"

namespace heed {
namespace {

LlamaConfig parse_phi3(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, 0);
  c.fused_projections = true;
  c.norm_eps = norm_epsilon(json, "rms_norm_eps", 1e-5);
  c.dropout = probability(json, "resid_pdrop", 0);
  c.padding = padding_setting(json, 32000, c.vocab_size);
  c.positions = json.positive_integer("max_position_embeddings", 4096);
  c.rotary = rotary_options(json, c.head_dim, c.positions, {.partial = "partial_rotary_factor"});
  if (c.rotary.scaling.kind == RotaryScalingKind::longrope)
    c.recompute_beyond = c.rotary.scaling.original_length;
  c.windows.assign(c.windows.size(), integer_or_null(json, "sliding_window", 0, 0));
  // Phi3ForCausalLM reads none of these.
  json.ignore({"attention_bias", "embd_pdrop", "full_attn_mod", "interpolate_factor", "lm_head_bias",
               "mlp_bias", "original_max_position_embeddings"});
  ignore_common_keys(json);
  return c;
}

}  // namespace

Family phi3_family() { return family<parse_phi3, build_llama>({"phi3"}); }

}  // namespace heed
