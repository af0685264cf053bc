// The vision transformers of DINOv3 (Simeoni et al. 2025): their config, and the model built from parts.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/vit_common.h"

namespace heed {
namespace {

struct Dinov3Config {
  VitConfig body;
  bool gated = false;

  static Dinov3Config parse(const Config& json);
};

Dinov3Config Dinov3Config::parse(const Config& json) {
  if (json.required_string("model_type") != "dinov3_vit")
    json.fail("model_type", "dinov3_vit (DINOv3's convolutional networks are not supported)");
  Dinov3Config c;
  c.body = VitConfig::parse(
      json, {.d_model = 384, .heads = 6, .norm_eps = 1e-5, .attention_dropout = "attention_dropout"});
  EncoderConfig& e = c.body.encoder;
  if (e.head != EncoderHead::none) json.fail("architectures", "DINOv3ViTModel");
  e.d_ff = json.positive_integer("intermediate_size", 1536);
  c.body.bias.query = json.boolean("query_bias", true);
  c.body.bias.key = json.boolean("key_bias", false);
  c.body.bias.value = json.boolean("value_bias", true);
  c.body.bias.attention_out = json.boolean("proj_bias", true);
  c.body.bias.feed_forward = json.boolean("mlp_bias", true);
  c.gated = json.boolean("use_gated_mlp", false);
  c.body.layer_scale = json.number("layerscale_value", 1.0);
  c.body.registers = register_count(json, 0);
  c.body.mask_token = true;
  c.body.rotary_base = positive_number(json, "rope_theta", 100);
  if (e.d_model / e.heads % 4 != 0) json.fail("num_attention_heads", "heads of a multiple of 4 dimensions");
  c.body.count_tokens();
  // What only training has (stochastic depth, positions moved at random), and what other heads read.
  json.ignore({"drop_path_rate", "pos_embed_jitter", "pos_embed_rescale", "pos_embed_shift",
               "apply_layernorm", "out_features", "out_indices", "reshape_hidden_states", "stage_names"});
  return c;
}

std::unique_ptr<Model> build_dinov3(const Dinov3Config& c, WeightBuilder& w) {
  const EncoderHeads heads{.prefix = "model."};
  EncoderParts parts = take_vit_body(c.body, begin_body(c.body.encoder, heads, w),
                                     {.patches = "embeddings.patch_embeddings",
                                      .mask_token = {1, 1},
                                      .layers = "layer.",
                                      .final_norm = "norm",
                                      .query = "attention.q_proj",
                                      .key = "attention.k_proj",
                                      .value = "attention.v_proj",
                                      .attention_out = "attention.o_proj",
                                      .norm = "norm1",
                                      .feed_forward_norm = "norm2",
                                      .up = "mlp.up_proj",
                                      .down = "mlp.down_proj",
                                      .gate = c.gated ? "mlp.gate_proj" : "",
                                      .scale = "layer_scale1",
                                      .feed_forward_scale = "layer_scale2"},
                                     w);
  parts.pool = pool_first_token();
  return assemble_encoder(c.body.encoder, w.finish(), std::move(parts));
}

}  // namespace

Family dinov3_family() {
  return family<&Dinov3Config::parse, build_dinov3>({"dinov3_vit", "dinov3_convnext"});
}

}  // namespace heed
