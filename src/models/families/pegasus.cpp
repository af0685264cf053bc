// The Pegasus family (Zhang et al. 2020, "PEGASUS: pre-training with extracted gap-sentences for abstractive
// summarization"): mBART's layers with sinusoidal positions, which are in the file and are not trained. The
// rest is in bart_common.h.
#include "models/families.h"
#include "models/families/bart_common.h"

namespace heed {
namespace {

BartConfig parse_pegasus(const Config& json) {
  BartConfig c = BartConfig::parse(json, {.pad = 0, .eos = 1, .start = 0});
  c.max_positions = computed_positions(json);
  c.layers.norm_first = true;
  return c;
}

std::unique_ptr<Model> build_pegasus(const BartConfig& c, WeightBuilder& w) {
  EncoderDecoderParts parts = take_bart_embeddings(c, w);
  take_bart_layers(parts, c.layers, w);
  for (auto& [name, embeddings, stack] : stacks_of(parts)) {
    embeddings.positions = AdditivePositions(w.tensor({.name = name + "embed_positions.weight",
                                                       .shape = {c.max_positions, c.layers.d_model},
                                                       .trained = false,
                                                       .required = false,
                                                       .fill = sinusoidal_fill(SinusoidLayout::halves)}));
    stack.final_norm = w.layer_norm(name + "layer_norm", c.layers.d_model, kBartNormEps);
  }
  parts.decoder.output.bias = take_logits_bias(w, c.vocab_size);
  return assemble_bart(c, w.finish(), std::move(parts));
}

}  // namespace

Family pegasus_family() { return family<parse_pegasus, build_pegasus>({"pegasus"}); }

}  // namespace heed
