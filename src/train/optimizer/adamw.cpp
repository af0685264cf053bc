// AdamW: one fused pass over each parameter.
#include "heed/train/adamw.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "heed/buffer.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "ops/optimizer.h"
#include "tensor/impl.h"
#include "train/optimizer/master_weights.h"

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

std::vector<ElementRange> whole_ranges(std::span<const Parameter> parameters) {
  std::vector<ElementRange> ranges;
  for (const Parameter& p : parameters) ranges.push_back({0, p.tensor.numel()});
  return ranges;
}

bool is_whole(const Parameter& p, const ElementRange& range) {
  return range.begin == 0 && range.end == p.tensor.numel();
}

// The range of a contiguous tensor, in one axis; shares memory.
Tensor part_of(const Tensor& whole, const ElementRange& range) {
  HEED_ASSERT(whole.is_contiguous(), "a contiguous tensor");
  return slice(reshape(whole.detach(), {whole.numel()}), 0, range.begin, range.end);
}

// The range of a tensor as a copy; in its own shape if that is all of it.
Tensor copy_of(const Tensor& whole, const Parameter& p, const ElementRange& range) {
  return is_whole(p, range) ? whole.clone() : part_of(whole, range).clone();
}

Tensor take(const TensorMap& state, const std::string& name, const Shape& shape, DType dtype) {
  const auto found = state.find(name);
  if (found == state.end()) throw Error("AdamW: " + name + " not found in the optimizer state");
  const Tensor& tensor = found->second;
  if (tensor.shape() != shape || tensor.dtype() != dtype) {
    throw Error("AdamW: " + name + ": expected " + std::string(name_of(dtype)) + shape.str() + ", got " +
                tensor.str());
  }
  return tensor;
}

// Stores the parameter in bf16, and returns the range of its numbers as they were.
Tensor narrow(const Parameter& p, const ElementRange& range) {
  const Tensor numbers = p.tensor.detach();
  set_data(p.tensor, numbers.to(DType::bf16));
  return is_whole(p, range) ? numbers : copy_of(numbers, p, range);
}

}  // namespace

bool takes_bf16(const Parameter& p) { return p.tensor.rank() > 1 && p.tensor.dtype() == DType::f32; }

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options)
    : AdamW(parameters, options, whole_ranges(parameters)) {}

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options, std::vector<ElementRange> ranges)
    : parameters_(std::move(parameters)),
      options_(options),
      ranges_(std::move(ranges)),
      masters_(parameters_.size()),
      steps_(parameters_.size(), 0) {
  check(options);
  HEED_ASSERT(ranges_.size() == parameters_.size(), "one range for each parameter");
  HEED_ASSERT(options.lr_factors.empty() || options.lr_factors.size() == parameters_.size(),
              "one factor for each parameter");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].tensor;
    dispatch_float("AdamW", p.dtype(), []<class T>() {});
    if (!options.bf16_weights || !takes_bf16(parameters_[i])) continue;
    masters_[i] = narrow(parameters_[i], ranges_[i]);
    release_cached_memory();  // that of f32 weights, which nothing of their size will take
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i].tensor;
    const DType dtype = gradient_dtype(p.dtype());
    const Shape shape =
        is_whole(parameters_[i], ranges_[i]) ? p.shape() : Shape{ranges_[i].end - ranges_[i].begin};
    m_.push_back(Tensor::zeros(shape, dtype));
    v_.push_back(Tensor::zeros(shape, dtype));
  }
}

void AdamW::step(double lr, double grad_scale) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (!p.tensor.grad().defined()) continue;
    const Tensor grad = p.tensor.grad().contiguous();
    const AdamWStep settings{.lr = options_.lr_factors.empty() ? lr : lr * options_.lr_factors[i],
                             .beta1 = options_.beta1,
                             .beta2 = options_.beta2,
                             .eps = options_.eps,
                             .weight_decay = p.decays ? options_.weight_decay : 0.0,
                             .grad_scale = grad_scale,
                             .step = ++steps_[i]};
    if (ranges_[i].begin == ranges_[i].end) continue;
    const Tensor& master = masters_[i];
    const Tensor stored = part_of(p.tensor, ranges_[i]);
    adamw_step(master.defined() ? master : stored, part_of(grad, ranges_[i]), m_[i], v_[i], settings);
    if (master.defined()) stored.copy_from(reshape(master, stored.shape()));
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

TensorMap AdamW::masters() const {
  TensorMap masters;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (masters_[i].defined()) masters[parameters_[i].name] = masters_[i];
  }
  return masters;
}

std::int64_t AdamW::state_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < m_.size(); ++i)
    bytes += (masters_[i].defined() ? 3 : 2) * (ranges_[i].end - ranges_[i].begin) *
             static_cast<std::int64_t>(size_of(m_[i].dtype()));
  return bytes;
}

void AdamW::load_state(const TensorMap& state) {
  std::set<std::string> known{"steps"};
  std::vector<Tensor> m;
  std::vector<Tensor> v;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    const auto part = [&](const std::string& name) {
      return copy_of(take(state, name, p.tensor.shape(), m_[i].dtype()), p, ranges_[i]);
    };
    m.push_back(part("m." + p.name));
    v.push_back(part("v." + p.name));
    known.insert({"m." + p.name, "v." + p.name});
  }
  const Tensor steps = take(state, "steps", {static_cast<std::int64_t>(steps_.size())}, DType::i64);
  for (const std::int64_t step : steps.to_vector<std::int64_t>()) {
    if (step < 0 || step > kMaxSteps)
      throw Error("AdamW: steps: expected integers from 0 to 2^53, got " + std::to_string(step));
  }
  for (const auto& entry : state) {
    if (!known.contains(entry.first)) {
      throw Error("AdamW: expected an optimizer state of this model, got a tensor " + entry.first);
    }
  }
  m_ = std::move(m);
  v_ = std::move(v);
  steps_ = steps.to_vector<std::int64_t>();
}

double gradient_norm(std::span<const Parameter> parameters) {
  return std::sqrt(sum_of_gradient_squares(parameters, whole_ranges(parameters)));
}

double sum_of_gradient_squares(std::span<const Parameter> parameters, std::span<const ElementRange> ranges) {
  double sum = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (!p.tensor.grad().defined()) continue;
    const Tensor grad = p.tensor.grad().contiguous();
    sum += sum_of_squares(part_of(grad, ranges[i]));
  }
  return sum;
}

double clip_scale(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

// Exchanges the data of parameters.

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
