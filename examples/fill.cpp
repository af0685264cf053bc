// Lists the most probable tokens for the masks of a text.
#include <cstdio>

#include "heed/heed.h"

int main() {
  const heed::LoadedModel model = heed::load("reviews-mlm");
  for (const auto& mask : model.fill("This film was a complete [MASK] of time.", 3))
    for (const heed::FillCandidate& one : mask) std::printf("%s %.4f\n", one.token.c_str(), one.probability);
}
