// ViT and DeiT (Touvron et al. 2021, "Training data-efficient image transformers"): their config, and the
// model built from parts.
#include <algorithm>

#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/towers.h"

namespace heed {
namespace {

const char* const kTwoHeads = "DeiTForImageClassificationWithTeacher";

struct VitModelConfig {
  ImageTower tower;
  std::string prefix;
  bool two_heads = false;  // of the class token and the distillation token

  static VitModelConfig parse(const Config& json);
};

VitModelConfig VitModelConfig::parse(const Config& json) {
  VitModelConfig c;
  const bool deit = json.required_string("model_type") == "deit";
  const std::string name = deit ? "DeiT" : "ViT";
  std::vector<std::string> known{name + "ForImageClassification", name + "ForMaskedImageModeling"};
  if (deit) known.push_back(kTwoHeads);
  const std::vector<std::string> architectures = json.strings("architectures");
  const std::string architecture = architectures.empty() ? name + "Model" : architectures.front();
  if (!architecture.ends_with("Model") && std::find(known.begin(), known.end(), architecture) == known.end())
    json.fail("architectures",
              name + "Model, " + known[0] + (deit ? ", " + known[2] : "") + " or " + known[1]);
  c.two_heads = architecture == kTwoHeads;
  c.prefix = deit ? "deit." : "vit.";
  c.tower = vit_tower(json);
  return c;
}

std::unique_ptr<Model> build_vit(const VitModelConfig& c, WeightBuilder& w) {
  const EncoderConfig& e = c.tower.body.encoder;
  const HeadMaps two{.output = "cls_classifier", .second_output = "distillation_classifier"};
  // What pretraining by masked patches has besides.
  const EncoderHeads heads{.prefix = c.prefix,
                           .sequence = c.two_heads ? two : HeadMaps{.output = "classifier"},
                           .unused = {"decoder.0"}};
  for (const char* prefix : {"", c.prefix.c_str()}) w.ignore(prefix + std::string("embeddings.mask_token"));
  EncoderParts parts = take_vit_body(c.tower.body, begin_body(e, heads, w), c.tower.names, w);
  if (const std::string pooler = "pooler.dense"; e.head == EncoderHead::none && w.has(pooler + ".weight")) {
    parts.pool = pool_first_token(w.linear(pooler, c.tower.pooled, e.d_model), c.tower.pooler_activation);
  }
  parts.head = take_head(e, heads, w);
  return assemble_encoder(e, w.finish(), std::move(parts));
}

}  // namespace

ImageTower vit_tower(const Config& json) {
  ImageTower tower{.body = VitConfig::parse(json)};
  VitConfig& body = tower.body;
  body.encoder.dropout = probability(json, "hidden_dropout_prob", 0.0);
  body.bias.query = body.bias.key = body.bias.value = json.boolean("qkv_bias", true);
  body.encoder.d_ff = json.positive_integer("intermediate_size", 3072);
  body.distillation = json.required_string("model_type") == "deit";
  body.count_tokens();
  tower.pooled = json.positive_integer("pooler_output_size", body.encoder.d_model);
  tower.pooler_activation = activation_setting(json, "pooler_act", json.string("pooler_act", "tanh"));
  json.ignore({"encoder_stride"});
  return tower;
}

Family vit_family() { return family<&VitModelConfig::parse, build_vit>({"vit", "deit"}, {"ViT", "DeiT"}); }

}  // namespace heed
