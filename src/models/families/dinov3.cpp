// The vision transformers of DINOv3 (Simeoni et al. 2025): their config, and the model built from parts.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/towers.h"

namespace heed {
namespace {

ImageTower parse_dinov3(const Config& json) {
  if (json.required_string("model_type") != "dinov3_vit")
    json.fail("model_type", "dinov3_vit (DINOv3's convolutional networks are not supported)");
  ImageTower tower = dinov3_tower(json);
  if (tower.body.encoder.head != EncoderHead::none) json.fail("architectures", "DINOv3ViTModel");
  return tower;
}

std::unique_ptr<Model> build_dinov3(const ImageTower& tower, WeightBuilder& w) {
  const EncoderConfig& e = tower.body.encoder;
  const EncoderHeads heads{.prefix = "model."};
  EncoderParts parts = take_vit_body(tower.body, begin_body(e, heads, w), tower.names, w);
  parts.pool = pool_first_token();
  return assemble_encoder(e, w.finish(), std::move(parts));
}

}  // namespace

ImageTower dinov3_tower(const Config& json) {
  VitConfig body = VitConfig::parse(
      json, {.d_model = 384, .heads = 6, .norm_eps = 1e-5, .attention_dropout = "attention_dropout"});
  EncoderConfig& e = body.encoder;
  e.d_ff = json.positive_integer("intermediate_size", 1536);
  body.bias.query = json.boolean("query_bias", true);
  body.bias.key = json.boolean("key_bias", false);
  body.bias.value = json.boolean("value_bias", true);
  body.bias.attention_out = json.boolean("proj_bias", true);
  body.bias.feed_forward = json.boolean("mlp_bias", true);
  const bool gated = json.boolean("use_gated_mlp", false);
  body.layer_scale = json.number("layerscale_value", 1.0);
  body.registers = register_count(json, 0);
  body.mask_token = true;
  body.rotary_base = positive_number(json, "rope_theta", 100);
  if (e.d_model / e.heads % 4 != 0) json.fail("num_attention_heads", "heads of a multiple of 4 dimensions");
  body.count_tokens();
  // What only training has (stochastic depth, positions moved at random), and what other heads read.
  json.ignore({"drop_path_rate", "pos_embed_jitter", "pos_embed_rescale", "pos_embed_shift",
               "apply_layernorm", "out_features", "out_indices", "reshape_hidden_states", "stage_names"});
  return {.body = std::move(body),
          .names = {.patches = "embeddings.patch_embeddings",
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
                    .gate = gated ? "mlp.gate_proj" : "",
                    .scale = "layer_scale1",
                    .feed_forward_scale = "layer_scale2"}};
}

Family dinov3_family() { return family<parse_dinov3, build_dinov3>({"dinov3_vit", "dinov3_convnext"}); }

}  // namespace heed
