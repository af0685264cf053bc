// AdamW: one fused pass over each parameter.
#include "heed/train/adamw.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "kernels/optimizer.h"
#include "kernels/reduce.h"

namespace heed {
namespace {

void check(const AdamWOptions& o) {
  for (const double beta : {o.beta1, o.beta2}) {
    if (!(beta >= 0 && beta < 1)) {
      throw Error("AdamW: expected betas from 0 to below 1, got " + std::to_string(beta));
    }
  }
  if (!(o.eps >= 0)) throw Error("AdamW: expected eps of at least 0, got " + std::to_string(o.eps));
  if (!(o.weight_decay >= 0)) {
    throw Error("AdamW: expected a weight decay of at least 0, got " + std::to_string(o.weight_decay));
  }
}

Tensor take(const TensorMap& state, const std::string& name, const Shape& shape, DType dtype) {
  const auto found = state.find(name);
  if (found == state.end()) throw Error("AdamW: " + name + " not found in the optimiser state");
  const Tensor& tensor = found->second;
  if (tensor.shape() != shape || tensor.dtype() != dtype) {
    throw Error("AdamW: " + name + ": expected " + std::string(name_of(dtype)) + shape.str() + ", got " +
                tensor.str());
  }
  return tensor.clone();
}

}  // namespace

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options)
    : parameters_(std::move(parameters)), options_(options), steps_(parameters_.size(), 0) {
  check(options);
  for (const Parameter& p : parameters_) {
    dispatch_float("AdamW", p.tensor.dtype(), []<class T>() {});
    m_.push_back(Tensor::zeros(p.tensor.shape(), p.tensor.dtype()));
    v_.push_back(Tensor::zeros(p.tensor.shape(), p.tensor.dtype()));
  }
}

void AdamW::step(double lr, double grad_scale) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (!p.tensor.grad().defined()) continue;
    const Tensor grad = p.tensor.grad().contiguous();
    const kernels::AdamW settings{.lr = lr,
                                  .beta1 = options_.beta1,
                                  .beta2 = options_.beta2,
                                  .eps = options_.eps,
                                  .weight_decay = p.decays ? options_.weight_decay : 0.0,
                                  .grad_scale = grad_scale,
                                  .step = ++steps_[i]};
    dispatch_float("AdamW", p.tensor.dtype(), [&]<class T>() {
      kernels::adamw<T>(p.tensor.data<T>(), grad.data<T>(), m_[i].data<T>(), v_[i].data<T>(),
                        p.tensor.numel(), settings);
    });
  }
}

void AdamW::zero_grad() const {
  for (const Parameter& p : parameters_) p.tensor.zero_grad();
}

TensorMap AdamW::state() const {
  TensorMap state;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    state["m." + parameters_[i].name] = m_[i];
    state["v." + parameters_[i].name] = v_[i];
  }
  state["steps"] = Tensor::from(steps_, {static_cast<std::int64_t>(steps_.size())});
  return state;
}

void AdamW::load_state(const TensorMap& state) {
  std::set<std::string> known{"steps"};
  std::vector<Tensor> m;
  std::vector<Tensor> v;
  for (const Parameter& p : parameters_) {
    m.push_back(take(state, "m." + p.name, p.tensor.shape(), p.tensor.dtype()));
    v.push_back(take(state, "v." + p.name, p.tensor.shape(), p.tensor.dtype()));
    known.insert({"m." + p.name, "v." + p.name});
  }
  const Tensor steps = take(state, "steps", {static_cast<std::int64_t>(steps_.size())}, DType::i64);
  for (const std::int64_t step : steps.to_vector<std::int64_t>()) {
    if (step < 0 || step > kMaxSteps)
      throw Error("AdamW: steps: expected integers from 0 to 2^53, got " + std::to_string(step));
  }
  for (const auto& entry : state) {
    if (!known.contains(entry.first)) {
      throw Error("AdamW: expected an optimiser state of this model, got a tensor " + entry.first);
    }
  }
  m_ = std::move(m);
  v_ = std::move(v);
  steps_ = steps.to_vector<std::int64_t>();
}

double gradient_norm(std::span<const Parameter> parameters) {
  double sum = 0;
  for (const Parameter& p : parameters) {
    if (!p.tensor.grad().defined()) continue;
    const Tensor grad = p.tensor.grad().contiguous();
    sum += dispatch_float("gradient_norm", grad.dtype(), [&]<class T>() {
      return kernels::sum_of_squares<T>(grad.data<T>(), grad.numel());
    });
  }
  return std::sqrt(sum);
}

double clip_scale(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace heed
