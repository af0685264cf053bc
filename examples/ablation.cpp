// Switches one head off, and prints what becomes of the logits.
#include <cstdio>

#include "heed/heed.h"

int main() {
  const heed::LoadedModel model = heed::load("reviews");
  heed::Taps nothing, ablation;
  ablation.listen("encoder.layers.1.self_attn.heads", {.heads = {0}}, heed::replace_by_zeros());
  for (heed::Taps* taps : {&nothing, &ablation})
    for (const float logit : model.forward("A moving story.", *taps).at("logits").to_vector<float>())
      std::printf("%.3f\n", logit);
}
