// The BART and mBART families: learned positions, and a norm of the embeddings. The rest is in bart_common.h.
#include "models/families.h"
#include "models/families/bart_common.h"

namespace heed {
namespace {

constexpr std::int64_t kPositionOffset = 2;  // the first rows of the positions' tables are never used

BartConfig parse_bart(const Config& json) {
  BartConfig c = BartConfig::parse(json);
  c.layers.norm_first = c.starts_with_last_label = json.required_string("model_type") == "mbart";
  return c;
}

std::unique_ptr<Model> build_bart(const BartConfig& c, WeightBuilder& w) {
  const std::int64_t d_model = c.layers.d_model;
  EncoderDecoderParts parts = take_bart_embeddings(c, w);
  for (auto& [name, embeddings, stack] : stacks_of(parts)) {
    embeddings.positions = AdditivePositions(w.tensor({.name = name + "embed_positions.weight",
                                                       .shape = {c.max_positions + kPositionOffset, d_model},
                                                       .init = Init::embedding}),
                                             kPositionOffset);
    embeddings.norm = w.layer_norm(name + "layernorm_embedding", d_model, kBartNormEps);
    if (c.layers.norm_first) stack.final_norm = w.layer_norm(name + "layer_norm", d_model, kBartNormEps);
  }
  take_bart_layers(parts, c.layers, w);
  parts.decoder.output.bias = take_logits_bias(w, c.vocab_size);
  return assemble_bart(c, w.finish(), std::move(parts));
}

}  // namespace

Family bart_family() { return family<parse_bart, build_bart>({"bart", "mbart"}); }

}  // namespace heed
