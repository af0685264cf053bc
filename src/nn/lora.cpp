// Low-rank additions to linear maps.
#include "heed/nn/lora.h"

#include "heed/ops/dropout.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"

namespace heed {
namespace {

thread_local Generator* dropout_generator = nullptr;

}  // namespace

Tensor LoraAdapter::operator()(const Tensor& x) const {
  const bool drops = dropout > 0.0 && dropout_generator != nullptr;
  const Tensor input = drops ? heed::dropout(x, dropout, dropout_generator->next()) : x;
  return linear(linear(input, a) * scale, b);
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
