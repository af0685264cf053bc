// The M2M100 family (Fan et al. 2021, "Beyond English-centric multilingual machine translation") and NLLB:
// mBART's layers with computed positions that skip padding. The rest is in bart_common.h.
#include "models/families.h"
#include "models/families/bart_common.h"

namespace heed {
namespace {

BartConfig parse_m2m100(const Config& json) {
  BartConfig c = BartConfig::parse(
      json, {.vocab_size = 128112, .activation = "relu", .attention_dropout = 0.1, .scale_embedding = true});
  c.max_positions = computed_positions(json);
  c.layers.norm_first = true;
  return c;
}

std::unique_ptr<Model> build_m2m100(const BartConfig& c, WeightBuilder& w) {
  EncoderDecoderParts parts = take_bart_embeddings(c, w);
  take_bart_layers(parts, c.layers, w);
  for (auto& [name, embeddings, stack] : stacks_of(parts)) {
    stack.final_norm = w.layer_norm(name + "layer_norm", c.layers.d_model, kBartNormEps);
    w.ignore(name + "embed_positions.weight");
    w.ignore(name + "embed_positions.weights");
    embeddings.unpositioned = c.pad;
  }
  ModelContents files = w.finish();
  parts.source.positions = parts.decoder.embeddings.positions =
      AdditivePositions(sinusoidal_table_to_10000(c.pad + 1, c.max_positions, c.layers.d_model), 1);
  return assemble_bart(c, std::move(files), std::move(parts));
}

}  // namespace

Family m2m100_family() { return family<parse_m2m100, build_m2m100>({"m2m_100"}); }

}  // namespace heed
