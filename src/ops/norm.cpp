// Layer norm and RMS norm, alone and fused with the residual sum before them; group norm.
#include "heed/ops/norm.h"

#include <algorithm>
#include <utility>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "kernels/norm.h"
#include "ops/computed_rows.h"
#include "ops/norm.h"
#include "tensor/impl.h"

namespace heed {
namespace {

void check(const NormOperands& in) {
  const Tensor &x = in.x, &weight = in.weight, &bias = in.bias;
  const bool fits = x.rank() >= 1 && weight.shape() == Shape{x.size(-1)} && weight.dtype() == x.dtype() &&
                    (!bias.defined() || (bias.shape() == weight.shape() && bias.dtype() == x.dtype()));
  if (!fits) {
    throw Error(std::string(in.name) + ": expected x [..., D], weight [D] and bias [D] of one type, got " +
                x.str() + ", " + weight.str() + " and " + bias.str());
  }
  const Tensor& r = in.residual;
  if (r.defined() && (r.shape() != x.shape() || r.dtype() != x.dtype())) {
    throw Error(std::string(in.name) + ": expected a residual like " + x.str() + ", got " + r.str());
  }
}

NormOperands checked(NormOperands in) {
  check(in);
  for (Tensor* each : {&in.x, &in.residual, &in.weight, &in.bias}) {
    if (each->defined()) *each = each->contiguous();
  }
  return in;
}
// The weight with its offset.
Tensor factors_of(const NormOperands& in) {
  const Tensor weight = in.weight.detach();
  return in.offset == 0 ? weight : weight + in.offset;
}

// All rows, of which nothing is kept: y holds the sum, too. With x and y null, they are yet to be given.
template <class T>
kernels::Norm<T> arguments(const NormOperands& in, const Tensor& factors, const T* x, T* y) {
  const auto data = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
  const std::int64_t d = in.x.size(-1);
  return {.rows = d == 0 ? 0 : in.x.numel() / d,
          .d = d,
          .eps = in.eps,
          .x = x,
          .residual = data(in.residual),
          .weight = factors.data<T>(),
          .bias = data(in.bias),
          .y = y,
          .sum = in.residual.defined() ? y : nullptr};
}

template <class T>
void run(const kernels::Norm<T>& args, bool centered) {
  centered ? kernels::layer_norm(args) : kernels::rms_norm(args);
}

class NormedRows final : public ComputedRows {
 public:
  NormedRows(NormOperands in, std::int64_t count)
      : ComputedRows(count, in.x.size(-1)),
        in_(std::move(in)),
        factors_(factors_of(in_)),
        alone_(TensorImpl::shared(in_.x).use_count() == 1 && TensorImpl::of(in_.x).buffer.use_count() == 1),
        before_(alone_ ? unread_rows(in_.x) : nullptr),
        all_(arguments<float>(in_, factors_, before_ != nullptr ? nullptr : in_.x.data<float>(), nullptr)) {}

  void compute(std::int64_t begin, std::int64_t end, float* to) const override {
    kernels::Norm<float> some = all_;
    some.rows = end - begin;
    if (before_ != nullptr) before_->compute(begin, end, to);
    some.x = before_ != nullptr ? to : all_.x + begin * all_.d;
    some.y = to;
    if (some.residual != nullptr) {
      some.residual += begin * all_.d;
      some.sum = to;
    }
    run(some, in_.centered);
  }
  std::shared_ptr<Buffer> place() const override {
    const std::shared_ptr<Buffer>& buffer = TensorImpl::of(in_.x).buffer;
    const bool whole = static_cast<std::size_t>(in_.x.numel()) * sizeof(float) == buffer->bytes();
    return alone_ && whole && buffer->is_allocated() ? buffer : nullptr;
  }

 private:
  NormOperands in_;
  Tensor factors_;
  bool alone_;                                  // nobody else has x
  std::shared_ptr<const ComputedRows> before_;  // those of x
  kernels::Norm<float> all_;
};

// What backward needs: the sum that was normalized, the factors (weight and offset), and the statistics of
// the sum's rows (mean of layer norm only).
struct Kept {
  Tensor sum, weight, mean, rstd;
};

Kept room_for_backward(const NormOperands& in, const Tensor& factors) {
  const Shape shape = in.x.shape();
  const std::int64_t rows = in.x.numel() / std::max<std::int64_t>(shape[-1], 1);
  return {in.residual.defined() ? Tensor::empty(shape, in.x.dtype()) : in.x.detach(), factors,
          in.centered ? Tensor::empty({rows}, in.x.dtype()) : Tensor(), Tensor::empty({rows}, in.x.dtype())};
}

// Nothing is kept where `kept` has no room.
template <class T>
void forward(const NormOperands& in, const Tensor& factors, const Kept& kept, const Tensor& y) {
  kernels::Norm<T> args = arguments<T>(in, factors, in.x.data<T>(), y.data<T>());
  if (kept.rstd.defined()) {
    if (in.residual.defined()) args.sum = kept.sum.data<T>();
    if (in.centered) args.mean = kept.mean.data<T>();
    args.rstd = kept.rstd.data<T>();
  }
  run(args, in.centered);
}

// The gradients of x, weight and bias. What x has received so far by another way (the residual connection)
// is added in the same pass; the result is then there, and the first entry is undefined.
template <class T>
std::vector<Tensor> backward(const Kept& kept, const Tensor& dy, const Tensor& so_far) {
  const Tensor dx = so_far.defined() ? so_far : Tensor::empty(dy.shape(), dy.dtype());
  const Tensor dweight = Tensor::empty(kept.weight.shape(), dy.dtype());
  const Tensor dbias = kept.mean.defined() ? Tensor::empty(kept.weight.shape(), dy.dtype()) : Tensor();
  const auto data = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
  kernels::norm_backward<T>({.rows = kept.rstd.numel(),
                             .d = dy.size(-1),
                             .x = kept.sum.data<T>(),
                             .weight = kept.weight.data<T>(),
                             .mean = data(kept.mean),
                             .rstd = kept.rstd.data<T>(),
                             .dy = dy.data<T>(),
                             .dsum = data(so_far),
                             .dx = dx.data<T>(),
                             .dweight = dweight.data<T>(),
                             .dbias = data(dbias)});
  return {so_far.defined() ? Tensor() : dx, dweight, dbias};
}

Tensor normalize(const NormOperands& given) {
  const NormOperands in = checked(given);
  const Tensor factors = factors_of(in);
  Tensor y = Tensor::empty(in.x.shape(), in.x.dtype());
  const bool recording = needs_gradient({in.x, in.residual, in.weight, in.bias});
  const Kept kept = recording ? room_for_backward(in, factors) : Kept();
  dispatch_float(in.name, in.x.dtype(), [&]<class T>() { forward<T>(in, factors, kept, y); });
  if (!recording) return y;
  if (in.residual.defined()) {  // both operands get the same gradient
    record(y, in.name, {in.x, in.residual, in.weight, in.bias}, [kept](const Tensor& dy) {
      return dispatch_float("norm", dy.dtype(), [&]<class T>() {
        const std::vector<Tensor> g = backward<T>(kept, dy.contiguous(), {});
        return std::vector<Tensor>{g[0], g[0], g[1], g[2]};
      });
    });
  } else {
    record(y, in.name, {in.x, in.weight, in.bias}, [kept](const Tensor& dy) {
      return dispatch_float("norm", dy.dtype(), [&]<class T>() {
        return backward<T>(kept, dy.contiguous(), gradient_so_far(0));
      });
    });
  }
  return y;
}

}  // namespace

Tensor norm_when_read(NormOperands given) {
  const std::int64_t d = given.x.rank() > 0 ? given.x.size(-1) : 0, rows = d == 0 ? 0 : given.x.numel() / d;
  if (rows < kFewestComputedRows || given.x.dtype() != DType::f32 ||
      needs_gradient({given.x, given.residual, given.weight, given.bias}))
    return normalize(given);
  const Shape shape = given.x.shape();
  return when_read(std::make_shared<NormedRows>(checked(std::move(given)), rows), shape);
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return normalize({"layer_norm", x, {}, weight, bias, eps, true});
}

Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                      double eps) {
  return normalize({"add_layer_norm", x, residual, weight, bias, eps, true});
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  if (x.rank() != 3 || groups < 1 || x.size(2) % groups != 0 || weight.shape() != Shape{x.size(2)} ||
      bias.shape() != weight.shape() || weight.dtype() != x.dtype() || bias.dtype() != x.dtype()) {
    throw Error("group_norm: expected x [B, T, C] with C a multiple of " + std::to_string(groups) +
                ", weight [C] and bias [C] of one type, got " + x.str() + ", " + weight.str() + " and " +
                bias.str());
  }
  const std::int64_t batch = x.size(0), time = x.size(1), channels = x.size(2);
  const std::int64_t size = channels / groups * time;
  const Tensor rows = reshape(transpose(x, 1, 2), {batch * groups, size});
  const Tensor normed = layer_norm(rows, Tensor::full({size}, 1.0, x.dtype()), {}, eps);
  return transpose(reshape(normed, {batch, channels, time}), 1, 2) * weight + bias;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, double offset) {
  return normalize({"rms_norm", x, {}, weight, {}, eps, false, offset});
}

Tensor add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, double eps,
                    double offset) {
  return normalize({"add_rms_norm", x, residual, weight, {}, eps, false, offset});
}

}  // namespace heed
