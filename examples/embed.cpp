// Compares texts by the cosines of their vectors.
#include <cstdio>

#include "heed/heed.h"

int main() {
  const heed::LoadedModel model = heed::load("reviews-mlm");
  const heed::Tensor vectors = model.embed({"A great film.", "A wonderful movie.", "Do not watch it."});
  for (const float cosine : heed::similarity(vectors, vectors).to_vector<float>())
    std::printf("%.3f\n", cosine);
}
