// What a forward pass computes once for all layers.
#include "heed/nn/part.h"

#include "heed/ops/shape.h"

namespace heed {

Pass::Pass(Context& user_context, const Pass& pass)
    : context(user_context),
      positions(pass.positions),
      self(pass.self),
      cross(pass.cross),
      rotation(pass.rotation),
      memory(pass.memory),
      lengths(pass.lengths),
      past(pass.past),
      read(pass.read),
      name(pass.name),
      cos_sin_(pass.cos_sin_),
      biased_(pass.biased_) {}

Tensor tokens_at(const Tensor& x, const std::vector<std::int64_t>& read) {
  const std::int64_t batch = x.size(0), time = x.size(1), count = std::ssize(read);
  HEED_ASSERT(count == batch || batch == 1, "a token of each row, or of packed ones");
  std::vector<std::int64_t> places;
  for (std::int64_t row = 0; row < count; ++row)
    places.push_back((batch == 1 ? 0 : row * time) + read[static_cast<std::size_t>(row)]);
  Shape shape = x.shape();
  shape[1] = count / batch;
  return reshape(gather(reshape(x, {batch * time, -1}), 0, Tensor::from(places, {count})), shape);
}

std::vector<Tensor*> Pass::differentiable() {
  std::vector<Tensor*> shared{&memory};
  for (auto& [bias, options] : biased_) {
    shared.push_back(&options.mask);
    shared.push_back(&options.relative_bias);
  }
  return shared;
}

void Pass::tap(const char* what, Tensor& value, TapAxes axes, const TapPart& part) {
  if (wants(what)) context.taps->emit(name + "." + what, value, axes, part);
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
