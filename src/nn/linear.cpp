// Embedding lookups and dropout as layers use them.
#include "heed/nn/linear.h"

#include "heed/ops/dropout.h"
#include "heed/ops/embedding.h"

namespace heed {

Tensor Embedding::operator()(const Tensor& ids) const { return embedding(table, ids, scale, padding_id); }

Tensor apply_dropout(const Tensor& x, double p, Context& context) {
  if (!context.training || p == 0.0) return x;
  if (context.generator == nullptr)
    throw Error("dropout: no random generator (set Context::generator for training)");
  return dropout(x, p, context.generator->next());
}

}  // namespace heed
