// Layer norm, its fusion with the residual sum before it, and RMS norm.
#include "heed/ops/norm.h"

#include "heed/autograd.h"
#include "kernels/norm.h"

namespace heed {
namespace {

void check(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool fits = x.rank() >= 1 && weight.shape() == Shape{x.size(-1)} && weight.dtype() == x.dtype() &&
                    (!bias.defined() || (bias.shape() == weight.shape() && bias.dtype() == x.dtype()));
  if (!fits) {
    throw Error(std::string(name) + ": expected x [..., D], weight [D] and bias [D] of one type, got " +
                x.str() + ", " + weight.str() + " and " + bias.str());
  }
}

std::vector<Tensor> layer_norm_gradient(const Tensor& x, const Tensor& weight, const Tensor& mean,
                                        const Tensor& rstd, const Tensor& dy) {
  const Tensor dense = dy.contiguous();
  Tensor dx = Tensor::empty(x.shape(), x.dtype());
  Tensor dweight = Tensor::empty(weight.shape(), x.dtype()), dbias = Tensor::empty(weight.shape(), x.dtype());
  dispatch_float("layer_norm", x.dtype(), [&]<class T>() {
    kernels::LayerNormBackward<T> args;
    args.d = x.size(-1);
    args.rows = mean.numel();
    args.x = x.data<T>();
    args.weight = weight.data<T>();
    args.mean = mean.data<T>();
    args.rstd = rstd.data<T>();
    args.dy = dense.data<T>();
    args.dx = dx.data<T>();
    args.dweight = dweight.data<T>();
    args.dbias = dbias.data<T>();
    kernels::layer_norm_backward(args);
  });
  return {dx, dweight, dbias};
}

// layer_norm(x [+ residual]); `residual` may be undefined.
Tensor normalise(const char* name, const Tensor& x, const Tensor& residual, const Tensor& weight,
                 const Tensor& bias, double eps) {
  check(name, x, weight, bias);
  if (residual.defined() && (residual.shape() != x.shape() || residual.dtype() != x.dtype())) {
    throw Error(std::string(name) + ": expected a residual like " + x.str() + ", got " + residual.str());
  }
  const Tensor input = x.contiguous(), other = residual.defined() ? residual.contiguous() : Tensor();
  const Tensor w = weight.contiguous(), b = bias.defined() ? bias.contiguous() : Tensor();
  const std::int64_t d = x.size(-1), rows = d == 0 ? 0 : x.numel() / d;
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const Tensor total = other.defined() ? Tensor::empty(x.shape(), x.dtype()) : input.detach();
  const Tensor mean = Tensor::empty({rows}, x.dtype()), rstd = Tensor::empty({rows}, x.dtype());
  dispatch_float(name, x.dtype(), [&]<class T>() {
    kernels::LayerNorm<T> args;
    args.rows = rows;
    args.d = d;
    args.eps = eps;
    args.x = input.data<T>();
    args.residual = other.defined() ? other.data<T>() : nullptr;
    args.weight = w.data<T>();
    args.bias = b.defined() ? b.data<T>() : nullptr;
    args.y = y.data<T>();
    args.sum = other.defined() ? total.data<T>() : nullptr;
    args.mean = mean.data<T>();
    args.rstd = rstd.data<T>();
    kernels::layer_norm(args);
  });
  if (needs_gradient({x, residual, weight, bias})) {
    record(y, name, {input, other, w, b}, [total, weight = w.detach(), mean, rstd](const Tensor& dy) {
      const std::vector<Tensor> g = layer_norm_gradient(total, weight, mean, rstd, dy);
      return std::vector<Tensor>{g[0], g[0], g[1], g[2]};
    });
  }
  return y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return normalise("layer_norm", x, {}, weight, bias, eps);
}

Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                      double eps) {
  return normalise("add_layer_norm", x, residual, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  check("rms_norm", x, weight, {});
  const Tensor input = x.contiguous(), w = weight.contiguous();
  const std::int64_t d = x.size(-1), rows = d == 0 ? 0 : x.numel() / d;
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  const Tensor rstd = Tensor::empty({rows}, x.dtype());
  dispatch_float("rms_norm", x.dtype(), [&]<class T>() {
    kernels::RmsNorm<T> args;
    args.rows = rows;
    args.d = d;
    args.eps = eps;
    args.x = input.data<T>();
    args.weight = w.data<T>();
    args.y = y.data<T>();
    args.rstd = rstd.data<T>();
    kernels::rms_norm(args);
  });
  if (needs_gradient({x, weight})) {
    record(y, "rms_norm", {input, w}, [x = input.detach(), w = w.detach(), rstd, rows, d](const Tensor& dy) {
      const Tensor dense = dy.contiguous();
      Tensor dx = Tensor::empty(x.shape(), x.dtype()), dweight = Tensor::empty(w.shape(), w.dtype());
      dispatch_float("rms_norm", x.dtype(), [&]<class T>() {
        kernels::RmsNormBackward<T> args;
        args.rows = rows;
        args.d = d;
        args.x = x.data<T>();
        args.weight = w.data<T>();
        args.rstd = rstd.data<T>();
        args.dy = dense.data<T>();
        args.dx = dx.data<T>();
        args.dweight = dweight.data<T>();
        kernels::rms_norm_backward(args);
      });
      return std::vector<Tensor>{dx, dweight};
    });
  }
  return y;
}

}  // namespace heed
