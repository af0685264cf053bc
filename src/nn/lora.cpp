// Low-rank additions to linear maps and embedding tables.
#include "heed/nn/lora.h"

#include "heed/autograd.h"
#include "heed/ops/dropout.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "ops/weight_product.h"

namespace heed {
namespace {

thread_local Generator* dropout_generator = nullptr;

}  // namespace

Tensor LoraAdapter::operator()(const Tensor& x) const {
  const bool drops = dropout > 0.0 && dropout_generator != nullptr;
  const Tensor input = drops ? heed::dropout(x, dropout, dropout_generator->next()) : x;
  return linear(linear(input, a) * scale, b);
}

Tensor LoraAdapter::rows(const Tensor& ids, double factor, std::optional<std::int64_t> padding_id) const {
  const auto chosen = [&] {  // columns of A, as rows
    if (needs_gradient({a})) return embedding(transpose(a, 0, 1).contiguous(), ids, 1.0, padding_id);
    return stored_embedding(transpose(a.contiguous(), 0, 1), nullptr, ids, 1.0);
  };
  return linear(chosen() * (scale * factor), b);
}

AdapterDropout::AdapterDropout(const Context& context) : before_(dropout_generator) {
  if (!context.training) return;
  if (context.generator == nullptr)
    throw Error("dropout: no random generator (set Context::generator for training)");
  dropout_generator = context.generator;
}

bool AdapterDropout::active() { return dropout_generator != nullptr; }

AdapterDropout::~AdapterDropout() { dropout_generator = before_; }

}  // namespace heed
