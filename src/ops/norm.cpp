// Layer norm and RMS norm, alone and fused with the residual sum before them; group norm.
#include "heed/ops/norm.h"

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "kernels/norm.h"

namespace heed {
namespace {

// What a norm is given, dense. An undefined residual or bias is absent; RMS norm has no mean.
struct Operands {
  const char* name;
  Tensor x, residual, weight, bias;
  double eps;
  bool centered;      // layer norm, else RMS norm
  double offset = 0;  // added to the weight
};

void check(const Operands& in) {
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

// What backward needs: the sum that was normalized, the factors (weight and offset), and the statistics of
// the sum's rows (mean of layer norm only).
struct Kept {
  Tensor sum, weight, mean, rstd;
};

template <class T>
void forward(const Operands& in, const Kept& kept, const Tensor& y) {
  const auto data = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
  const kernels::Norm<T> args{.rows = kept.rstd.numel(),
                              .d = in.x.size(-1),
                              .eps = in.eps,
                              .x = in.x.data<T>(),
                              .residual = data(in.residual),
                              .weight = kept.weight.data<T>(),
                              .bias = data(in.bias),
                              .y = y.data<T>(),
                              .sum = in.residual.defined() ? kept.sum.data<T>() : nullptr,
                              .mean = data(kept.mean),
                              .rstd = kept.rstd.data<T>()};
  if (in.centered) {
    kernels::layer_norm(args);
  } else {
    kernels::rms_norm(args);
  }
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

Tensor normalize(const Operands& given) {
  check(given);
  const auto dense = [](const Tensor& t) { return t.defined() ? t.contiguous() : t; };
  const Operands in{given.name,        dense(given.x), dense(given.residual), dense(given.weight),
                    dense(given.bias), given.eps,      given.centered,        given.offset};
  const DType dtype = in.x.dtype();
  const std::int64_t d = in.x.size(-1), rows = d == 0 ? 0 : in.x.numel() / d;
  const Tensor sum = in.residual.defined() ? Tensor::empty(in.x.shape(), dtype) : in.x.detach();
  const Tensor weight = in.weight.detach();
  const Kept kept{sum, in.offset == 0 ? weight : weight + in.offset,
                  in.centered ? Tensor::empty({rows}, dtype) : Tensor(), Tensor::empty({rows}, dtype)};
  Tensor y = Tensor::empty(in.x.shape(), dtype);
  dispatch_float(in.name, dtype, [&]<class T>() { forward<T>(in, kept, y); });
  if (!needs_gradient({in.x, in.residual, in.weight, in.bias})) return y;
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
