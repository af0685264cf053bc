// Looks inside a model through taps: reads the weights of one head, removes a head, and puts a value of one
// text into the run of another. Usage: taps [MODEL], a decoder such as gpt2's fixture.
#include <cstdio>
#include <string>

#include "heed/heed.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"

namespace {

heed::TensorMap inputs_of(const std::vector<std::int64_t>& ids) {
  return {{"input_ids", heed::Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())})}};
}

// The largest logit at the last position, with the listeners of `taps`.
double largest_logit(const heed::Model& model, const heed::TensorMap& inputs, heed::Taps& taps) {
  heed::Context context{.taps = &taps};
  const heed::Tensor logits = model.forward(inputs, {}, context).at("logits");
  taps.require_all_fired();  // a misspelled name is an error
  const std::int64_t last = logits.size(1) - 1;
  return heed::max(heed::slice(logits, 1, last, last + 1), -1).item();
}

void run(const std::string& folder) {
  const heed::NoGradients guard;
  const auto model = heed::load_model(folder);
  const heed::TensorMap text = inputs_of({5, 9, 200, 31}), other = inputs_of({5, 77, 200, 31});

  heed::Taps listening;  // head 1 of layer 0; the weights of no other head are computed
  listening.listen("decoder.layers.0.self_attn.weights", {.heads = {1}, .queries = {3, 4}},
                   [](const std::string& name, heed::Tensor& weights) {
                     std::printf("%s, head 1, last query:", name.c_str());
                     for (const float w : weights.to_vector<float>())
                       std::printf(" %.3f", static_cast<double>(w));
                     std::printf("\n");
                   });
  heed::Tensor stream;
  listening.listen("decoder.layers.1.in",
                   [&](const std::string&, heed::Tensor& value) { stream = value.clone(); });
  std::printf("largest logit: %.4f\n", largest_logit(*model, text, listening));

  heed::Taps ablation;
  ablation.listen("decoder.layers.0.self_attn.heads", {.heads = {1}}, heed::replace_by_zeros());
  std::printf("without head 1 of layer 0: %.4f\n", largest_logit(*model, text, ablation));

  heed::Taps patching;  // position 1 of the first text, before layer 1, in the run of the second
  patching.listen("decoder.layers.1.in", {.queries = {1, 2}}, heed::replace_by(heed::slice(stream, 1, 1, 2)));
  heed::Taps none;
  std::printf("another text: %.4f, patched: %.4f\n", largest_logit(*model, other, none),
              largest_logit(*model, other, patching));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "tests/fixtures/decoders/gpt2");
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
