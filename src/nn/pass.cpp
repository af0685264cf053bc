// What a forward pass computes once for all layers.
#include "heed/nn/pass.h"

namespace heed {

void Pass::tap(const char* what, Tensor& value) {
  if (wants(what)) context.taps->emit(name + "." + what, value);
}

const Tensor& Pass::cos_sin(const RotaryPositions& rotary, const Tensor& x) {
  Tensor& table = cos_sin_[&rotary];
  if (!table.defined()) table = rotary.cos_sin(positions, x.size(0), x.size(2)).to(x.dtype());
  return table;
}

const AttentionOptions& Pass::biased(const ScoreBias& bias, const Tensor& queries, const Tensor& keys) {
  const auto [entry, fresh] = biased_.try_emplace(&bias, self);
  if (fresh) bias.add_to(entry->second, queries, keys);
  return entry->second;
}

}  // namespace heed
