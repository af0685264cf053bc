// Exchanges the data of parameters.
#include "train/master_weights.h"

#include "heed/ops/reduce.h"
#include "tensor/impl.h"

namespace heed {

MasterWeights::MasterWeights(const std::vector<Parameter>& parameters, const TensorMap& masters) {
  for (const Parameter& p : parameters) {
    const auto master = masters.find(p.name);
    if (master == masters.end()) continue;
    kept_.push_back({p.tensor, p.tensor.detach()});
    set_data(p.tensor, master->second);
  }
}

MasterWeights::~MasterWeights() {
  for (const Kept& k : kept_) set_data(k.parameter, k.data);
}

std::string first_not_finite(const std::vector<Parameter>& parameters, const TensorMap& masters) {
  for (const Parameter& p : parameters) {
    const auto master = masters.find(p.name);
    const Tensor& numbers = master == masters.end() ? p.tensor : master->second;
    if (!all_finite(numbers)) return p.name;
  }
  return "";
}

void widen_weights(const std::vector<Parameter>& parameters) {
  for (const Parameter& p : parameters) {
    if (p.tensor.dtype() == DType::bf16) set_data(p.tensor, p.tensor.detach().to(DType::f32));
  }
}

}  // namespace heed
