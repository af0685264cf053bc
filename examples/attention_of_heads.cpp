// Prints which source token a head of the last layer attends to most, for each token of the translation.
#include <cstdio>

#include "heed/heed.h"

int main() {
  const heed::LoadedModel model = heed::load("en-fr");
  const heed::TextAttention cross =
      model.attention("The black cat drinks milk.", {.kind = "cross", .layers = {1}, .heads = {3}});
  const heed::Tensor best = heed::argmax(cross.layers[0].weights, -1);  // i64 [1, queries]
  for (std::size_t t = 0; t < cross.queries.size(); ++t)
    std::printf("%s <- %s\n", cross.queries[t].c_str(), cross.keys[best.data<std::int64_t>()[t]].c_str());
}
