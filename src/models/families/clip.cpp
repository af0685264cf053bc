// CLIP (Radford et al. 2021, "Learning transferable visual models from natural language supervision"), SigLIP
// (Zhai et al. 2023, "Sigmoid loss for language image pre-training") and SigLIP 2 for images of any
// proportions (Tschannen et al. 2025), and each tower of them alone: their config, and the models built from
// parts.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "heed/nn/attention.h"
#include "heed/nn/part.h"
#include "heed/ops/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/embeddings.h"
#include "models/encoder.h"
#include "models/families.h"
#include "models/families/vit_common.h"
#include "models/named_tensors.h"

namespace heed {
namespace {

constexpr const char* kImageStack = "image_encoder";

struct TowerConfig {
  Config json;
  VitConfig body;
  bool siglip = false;
  std::int64_t projection = 0;  // of CLIP's vectors, or of SigLIP's texts; 0: none
  std::int64_t eos = 0;         // of CLIP's texts
  bool pools = true;            // SigLIP's images
  std::int64_t side = 0;        // of SigLIP 2's images: that of the square of positions, which is resized

  static TowerConfig text(const Config& json, bool siglip);
  static TowerConfig image(const Config& json, bool siglip);
  static TowerConfig patches(const Config& json);
};

struct ClipConfig {
  bool siglip = false;
  std::optional<TowerConfig> text, image;  // both, or one tower alone
  bool projects = false;                   // a tower alone, with its projection
  double logit_scale = 0;                  // of a new model

  static ClipConfig parse(const Config& json);
};

const VitNames kTowerNames{.class_token = "embeddings.class_embedding",
                           .positions = "embeddings.position_embedding.weight",
                           .patches = "embeddings.patch_embedding",
                           .flat = true,
                           .layers = "encoder.layers.",
                           .query = "self_attn.q_proj",
                           .key = "self_attn.k_proj",
                           .value = "self_attn.v_proj",
                           .attention_out = "self_attn.out_proj",
                           .norm = "layer_norm1",
                           .feed_forward_norm = "layer_norm2",
                           .up = "mlp.fc1",
                           .down = "mlp.fc2"};

// What both towers have; the rest of the keys is another's, or of any config.
void finish_tower(TowerConfig& c, const Config& json, std::int64_t d_ff) {
  c.body.encoder.d_ff = json.positive_integer("intermediate_size", d_ff);
  c.body.encoder.dropout = 0;
  json.ignore({"dropout", "initializer_factor", "logit_scale_init_value", "projection_dim"});
  ignore_common_keys(json);
}

VitDefaults tower_defaults(bool siglip, std::int64_t d_model, std::int64_t heads, std::int64_t patch) {
  return {.d_model = d_model,
          .heads = heads,
          .patch = patch,
          .norm_eps = siglip ? 1e-6 : 1e-5,
          .activation = siglip ? "gelu_pytorch_tanh" : "quick_gelu",
          .attention_dropout = "attention_dropout"};
}

TowerConfig TowerConfig::text(const Config& json, bool siglip) {
  TowerConfig c{.json = json, .body = {}, .siglip = siglip};
  c.body = VitConfig::parse_layers(json, tower_defaults(siglip, siglip ? 768 : 512, siglip ? 12 : 8, 0));
  EncoderConfig& e = c.body.encoder;
  e.vocab_size = json.positive_integer("vocab_size", siglip ? 32000 : 49408);
  e.positions = json.positive_integer("max_position_embeddings", siglip ? 64 : 77);
  if (e.positions > kMostPositions)
    json.fail("max_position_embeddings", "at most " + std::to_string(kMostPositions));
  e.max_positions = e.positions;
  e.padding = json.optional_integer("pad_token_id").value_or(1);
  if (*e.padding < 0 || *e.padding >= e.vocab_size) e.padding = 0;  // which only makes rows of one length
  c.eos = single_id(json, "eos_token_id", 49407);
  // A masked id may be any, but must not be taken for the end of a text without one.
  if (!siglip && *e.padding == c.eos && e.vocab_size > 1) e.padding = c.eos == 0 ? 1 : 0;
  if (siglip) c.projection = json.positive_integer("projection_size", e.d_model);
  finish_tower(c, json, siglip ? 3072 : 2048);
  return c;
}

TowerConfig TowerConfig::image(const Config& json, bool siglip) {
  TowerConfig c{.json = json, .body = {}, .siglip = siglip};
  c.body = VitConfig::parse(json, tower_defaults(siglip, 768, 12, siglip ? 16 : 32));
  c.body.class_token = !siglip;
  c.body.bias.patches = siglip;
  for (const char* key : {"image_size", "patch_size"}) {
    const Shape& sizes = key[0] == 'i' ? c.body.image : c.body.patch;
    if (sizes[0] != sizes[1]) json.fail(key, "one number, for height and width");
  }
  c.body.count_tokens();
  if (siglip) c.pools = json.boolean("vision_use_head", true);
  finish_tower(c, json, 3072);
  return c;
}

// Images come as patches, whose number in all is that of the table or another.
TowerConfig TowerConfig::patches(const Config& json) {
  TowerConfig c{.json = json, .body = {}, .siglip = true};
  c.body = VitConfig::parse_layers(json, tower_defaults(true, 768, 12, 16));
  c.body.channels = json.positive_integer("num_channels", 3);
  const std::int64_t patch = json.positive_integer("patch_size", 16),
                     positions = json.positive_integer("num_patches", 256);
  if (patch > 1024) json.fail("patch_size", "at most 1024");
  c.body.patch = {patch, patch};
  c.side = side_of(positions);
  if (c.side * c.side != positions || positions > kMostPositions)
    json.fail("num_patches", "a square number, at most " + std::to_string(kMostPositions));
  c.body.encoder.positions = positions;
  c.body.encoder.trained_positions = positions;
  c.pools = json.boolean("vision_use_head", true);
  finish_tower(c, json, 3072);
  return c;
}

// The settings of a tower, which old files have twice: those of NAME_config_dict win.
Config tower_settings(const Config& json, const std::string& name) {
  const std::string key = name + "_config", older = key + "_dict";
  if (const auto given = json.optional_sub(older); given && !given->names().empty()) {
    json.ignore({key});
    return *given;
  }
  json.ignore({older});
  if (auto given = json.optional_sub(key)) return *given;
  return Config::parse("{}", json.where());
}

ClipConfig ClipConfig::parse(const Config& json) {
  ClipConfig c;
  const std::string type = json.required_string("model_type");
  c.siglip = type.starts_with("siglip");
  const bool of_patches = type.starts_with("siglip2");
  const std::string name = of_patches ? "Siglip2" : c.siglip ? "Siglip" : "CLIP";
  const bool text = type.ends_with("_text_model"), image = type.ends_with("_vision_model");
  const std::string body = name + (text ? "Text" : image ? "Vision" : "") + "Model";
  const std::vector<std::string> architectures = json.strings("architectures");
  const std::string architecture = architectures.empty() ? body : architectures.front();
  const bool may_project = !c.siglip && (text || image);
  const auto image_tower = [&](const Config& settings) {
    return of_patches ? TowerConfig::patches(settings) : TowerConfig::image(settings, c.siglip);
  };
  c.projects = may_project && architecture == body + "WithProjection";
  if (architecture != body && !c.projects)
    json.fail("architectures", body + (may_project ? " or " + body + "WithProjection" : ""));
  if (text || image) {
    const std::int64_t projection = may_project ? json.positive_integer("projection_dim", 512) : 0;
    TowerConfig tower = text ? TowerConfig::text(json, c.siglip) : image_tower(json);
    if (c.projects) tower.projection = projection;
    (text ? c.text : c.image) = std::move(tower);
    return c;
  }
  c.text = TowerConfig::text(tower_settings(json, "text"), c.siglip);
  c.image = image_tower(tower_settings(json, "vision"));
  if (c.siglip) {
    if (!c.image->pools) json.fail("vision_config", "vision_use_head true, as pictures have no vector else");
    if (c.text->projection != c.image->body.encoder.d_model)
      json.fail("text_config", "a projection_size of the vision_config's hidden_size");
  } else {
    c.text->projection = c.image->projection = json.positive_integer("projection_dim", 512);
    c.logit_scale = json.number("logit_scale_init_value", 2.6592);
  }
  json.ignore({"initializer_factor", "initializer_range", "vocab_size"});
  return c;
}

// CLIP's vector of a text is at its first end token. A config with the end token 2 is of an old file, where
// the end token is the one of the highest id.
Tensor at_end_token(const Tensor& hidden, const ModelInput& input, std::int64_t eos) {
  if (!input.ids.defined()) throw Error("vectors: expected token ids, which tell the end, got embeddings");
  const Tensor ids = input.ids.contiguous();
  const std::int64_t batch = hidden.size(0), time = hidden.size(1);
  Tensor rows = Tensor::empty({batch}, DType::i64);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t *row = ids.data<std::int64_t>() + b * time, *last = row + time;
    const std::int64_t* end = eos == 2 ? std::max_element(row, last) : std::find(row, last, eos);
    rows.data<std::int64_t>()[b] = b * time + (end == last ? 0 : end - row);
  }
  return gather(reshape(hidden, {batch * time, hidden.size(2)}), 0, rows);
}

EncoderParts take_text(const TowerConfig& c, const std::string& prefix, WeightBuilder& w) {
  const EncoderConfig& e = c.body.encoder;
  EncoderParts parts;
  parts.embeddings.tokens.table =
      w.embedding(prefix + "embeddings.token_embedding.weight", e.vocab_size, e.d_model);
  parts.embeddings.positions = AdditivePositions(
      w.tensor({.name = prefix + "embeddings.position_embedding.weight", .shape = {e.positions, e.d_model}}));
  w.ignore(prefix + "embeddings.position_ids");
  VitNames names = kTowerNames;
  names.final_norm = "final_layer_norm";
  parts.stack = take_vit_stack(c.body, prefix, names, w);
  parts.causal = !c.siglip;
  parts.normed_hidden_states = false;
  parts.pads_texts = c.siglip;
  if (c.siglip) {  // at the last token, which may be padding
    parts.pool = [head = w.linear(prefix + "head", c.projection, e.d_model)](const Tensor& hidden,
                                                                             const ModelInput&, Context&) {
      const std::int64_t time = hidden.size(1);
      return head(reshape(slice(hidden, 1, time - 1, time), {hidden.size(0), hidden.size(2)}));
    };
  } else {
    parts.pool = [eos = c.eos](const Tensor& hidden, const ModelInput& input, Context&) {
      return at_end_token(hidden, input, eos);
    };
  }
  return parts;
}

// SigLIP's vector of an image: attention of one learned query to all patches, and a feed-forward network.
struct AttentionPool {
  Tensor probe;                  // [1, 1, D]
  Tensor projection, biases;     // [3D, D], [3D]: of the query, the keys, the values
  MultiHeadAttention attention;  // its output projection
  Norm norm;
  Linear up, down;
  Activation activation;
  std::string name;  // the prefix of its taps

  Tensor operator()(const Tensor& hidden, const ModelInput& input, Context& context) const {
    const std::int64_t batch = hidden.size(0), d = hidden.size(2), heads = attention.heads;
    const auto project = [&](const Tensor& x, std::int64_t kind) {  // [B, T, D] -> [B, H, T, D / H]
      const Tensor rows = linear(x, slice(projection, 0, kind * d, (kind + 1) * d),
                                 slice(biases, 0, kind * d, (kind + 1) * d));
      return transpose(reshape(rows, {x.size(0), x.size(1), heads, d / heads}), 1, 2);
    };
    const Tensor asked = probe.dtype() == hidden.dtype() ? probe : probe.to(hidden.dtype());
    const Tensor query = broadcast_to(project(asked, 0), {batch, heads, 1, d / heads}).contiguous();
    Pass pass(context);
    pass.name = name;
    const Tensor found =
        attention.attend(query, project(hidden, 1), project(hidden, 2), masked_keys(input.mask), pass);
    const Tensor x = reshape(found, {batch, d});
    return x + down(up(norm(x), activation));
  }
};

// Patches to tokens, with positions resized to each image's grid.
class PatchFrontend final : public Frontend {
 public:
  PatchFrontend(const TowerConfig& c, Linear projection, Tensor positions)
      : side_(c.side),
        patch_(c.body.patch),
        projection_(std::move(projection)),
        positions_(std::move(positions)) {}
  InputSpec input() const override {
    const std::int64_t numbers = projection_.weight.size(1);
    return {InputKind::patches, {-1, numbers}, "pixel_values", {side_ * side_, numbers}, patch_};
  }
  Tensor operator()(const ModelInput& given, const Tensor& /*shown*/, Context& /*context*/) const override {
    const std::int64_t batch = given.values.size(0), patches = given.values.size(1);
    if (!given.grids.defined() || given.grids.shape() != Shape{batch, 2})
      throw Error("encode: expected spatial_shapes [" + std::to_string(batch) + ", 2], got " +
                  given.grids.str());
    const Tensor grids = given.grids.contiguous();
    std::vector<Tensor> positions;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t* grid = grids.data<std::int64_t>() + 2 * b;
      positions.push_back(positions_of({grid[0], grid[1]}, patches));
    }
    const Tensor x = projection_(given.values);
    return x + stack(positions, 0).to(x.dtype());
  }

 private:
  // [patches, D]: behind those of the grid, padding has the first one's.
  Tensor positions_of(const Shape& grid, std::int64_t patches) const {
    if (std::min(grid[0], grid[1]) < 1 || grid[0] > patches / grid[1]) {
      throw Error("encode: spatial_shapes: expected grids of at most " + std::to_string(patches) +
                  " patches, got " + std::to_string(grid[0]) + " x " + std::to_string(grid[1]));
    }
    const Tensor resized = resize_positions(positions_, {side_, side_}, grid, GridResize::smooth_linear);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(patches));
    std::iota(rows.begin(), rows.begin() + grid.numel(), 0);
    return gather(resized, 0, Tensor::from(rows, {patches}));
  }

  std::int64_t side_;
  Shape patch_;
  Linear projection_;  // [D, P P C]
  Tensor positions_;   // [side side, D]
};

EncoderParts take_image_layers(const TowerConfig& c, const std::string& prefix, const VitNames& names,
                               WeightBuilder& w) {
  if (c.side == 0) return take_vit_body(c.body, prefix, names, w);
  const std::int64_t d = c.body.encoder.d_model, numbers = c.body.patch.numel() * c.body.channels;
  EncoderParts parts;
  Linear projection = w.linear(prefix + names.patches, d, numbers);
  Tensor positions =
      w.tensor({.name = prefix + names.positions, .shape = {c.side * c.side, d}, .init = Init::embedding});
  parts.embeddings.frontend = std::make_shared<PatchFrontend>(c, std::move(projection), std::move(positions));
  parts.stack = take_vit_stack(c.body, prefix, names, w);
  parts.normed_hidden_states = false;
  return parts;
}

EncoderParts take_image(const TowerConfig& c, const std::string& prefix, const std::string& stack,
                        WeightBuilder& w) {
  const EncoderConfig& e = c.body.encoder;
  VitNames names = kTowerNames;
  names.embeddings_norm = c.siglip ? "" : "pre_layrnorm";  // as it is spelled
  names.final_norm = c.siglip ? "post_layernorm" : "";
  EncoderParts parts = take_image_layers(c, prefix, names, w);
  w.ignore(prefix + "embeddings.position_ids");
  if (!c.siglip) {
    parts.pool = [first = pool_first_token(),
                  norm = w.layer_norm(prefix + "post_layernorm", e.d_model, e.norm_eps)](
                     const Tensor& hidden, const ModelInput& input, Context& context) {
      return norm(first(hidden, input, context));
    };
  } else if (c.pools) {
    const std::string head = prefix + "head.", attention = head + "attention.";
    AttentionPool pool;
    pool.attention.heads = pool.attention.kv_heads = e.heads;
    pool.name = stack + ".pool";
    pool.activation = e.activation;
    pool.probe = w.tensor({.name = head + "probe", .shape = {1, 1, e.d_model}});
    pool.projection = w.tensor({.name = attention + "in_proj_weight", .shape = {3 * e.d_model, e.d_model}});
    pool.biases = w.bias(attention + "in_proj_bias", 3 * e.d_model);
    pool.attention.out = w.linear(attention + "out_proj", e.d_model, e.d_model);
    pool.norm = w.layer_norm(head + "layernorm", e.d_model, e.norm_eps);
    pool.up = w.linear(head + "mlp.fc1", e.d_ff, e.d_model);
    pool.down = w.linear(head + "mlp.fc2", e.d_model, e.d_ff);
    parts.pool = std::move(pool);
  }
  return parts;
}

std::unique_ptr<Model> build_tower(const ClipConfig& c, WeightBuilder& w) {
  const bool text = c.text.has_value();
  const TowerConfig& tower = text ? *c.text : *c.image;
  const std::string prefix = text ? "text_model." : "vision_model.";
  if (c.projects) w.set_prefix(prefix);
  if (!c.projects) w.set_body_prefix(prefix);
  const std::string names = c.projects ? prefix : "";
  EncoderParts parts = text ? take_text(tower, names, w) : take_image(tower, names, "encoder", w);
  if (c.projects) {
    parts.projection = w.linear(text ? "text_projection" : "visual_projection", tower.projection,
                                tower.body.encoder.d_model, false);
    parts.projected = text ? "text_embeds" : "image_embeds";
  }
  parts.pools_vectors = tower.pools;
  return assemble_encoder(tower.body.encoder, w.finish(), std::move(parts));
}

std::unique_ptr<Model> build_clip(const ClipConfig& c, WeightBuilder& w) {
  if (!c.text || !c.image) return build_tower(c, w);
  const auto one_number = [&](const char* name, double value) {
    return w.tensor({.name = name, .shape = c.siglip ? Shape{1} : Shape{}, .fill = [value](const Tensor& t) {
                       t.copy_from(Tensor::full(t.shape(), value));
                     }});
  };
  DualEncoderParts parts;
  parts.loss = c.siglip ? PairLoss::sigmoid : PairLoss::softmax;
  parts.logit_scale = one_number("logit_scale", c.logit_scale);
  if (c.siglip) parts.logit_bias = one_number("logit_bias", 0);
  EncoderParts text = take_text(*c.text, "text_model.", w),
               image = take_image(*c.image, "vision_model.", kImageStack, w);
  if (!c.siglip) {
    image.projection =
        w.linear("visual_projection", c.image->projection, c.image->body.encoder.d_model, false);
    text.projection = w.linear("text_projection", c.text->projection, c.text->body.encoder.d_model, false);
  }
  ModelContents files = w.finish();
  const auto assemble = [&](const TowerConfig& tower, EncoderParts made, const char* stack) {
    made.stack.name = stack;
    made.pools_vectors = true;
    const std::string type = files.config.required_string("model_type");
    ModelContents none{tower.json.with("{\"model_type\": \"" + type + "\"}"), "", {}};
    return Tower{assemble_encoder(tower.body.encoder, std::move(none), std::move(made)), stack,
                 tower.body.encoder.layers};
  };
  parts.text = assemble(*c.text, std::move(text), "text_encoder");
  parts.image = assemble(*c.image, std::move(image), kImageStack);
  return assemble_dual_encoder(std::move(files), std::move(parts));
}

}  // namespace

Family clip_family() {
  return family<&ClipConfig::parse, build_clip>({"clip", "clip_text_model", "clip_vision_model", "siglip",
                                                 "siglip_text_model", "siglip_vision_model", "siglip2",
                                                 "siglip2_text_model", "siglip2_vision_model"});
}

}  // namespace heed
