// Arithmetic with broadcasting, and element-wise functions.
#include "heed/ops/elementwise.h"

#include <algorithm>

#include "heed/ops/reduce.h"
#include "kernels/elementwise.h"
#include "ops/recording.h"

namespace heed {
namespace {

void check_types(const char* name, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw Error(std::string(name) + ": expected operands of one type, got " + a.str() + " and " + b.str() +
                " (convert one with to())");
  }
}

// Strides with which a contiguous tensor of `from` is read to fill `to`.
void broadcast_strides(const Shape& from, const Shape& to,
                       std::array<std::int64_t, kernels::kMaxRank>& strides) {
  const Shape dense = contiguous_strides(from);
  const int lead = to.rank() - from.rank();
  for (int axis = 0; axis < to.rank(); ++axis) {
    const bool repeated = axis < lead || from[axis - lead] == 1;
    strides[static_cast<std::size_t>(axis)] = repeated ? 0 : dense[axis - lead];
  }
}

template <class Kernel>
Tensor binary(const char* name, const Tensor& a, const Tensor& b, Kernel kernel) {
  check_types(name, a, b);
  const Shape shape = broadcast_shapes(name, a.shape(), b.shape());
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  Tensor result = Tensor::empty(shape, a.dtype());
  dispatch_float(name, a.dtype(), [&]<class T>() {
    if (x.shape() == y.shape()) {
      kernel(x.data<T>(), y.data<T>(), result.data<T>(), result.numel());
      return;
    }
    kernels::Broadcast broadcast;
    broadcast.rank = shape.rank();
    std::copy(shape.begin(), shape.end(), broadcast.sizes.begin());
    broadcast_strides(x.shape(), shape, broadcast.strides_a);
    broadcast_strides(y.shape(), shape, broadcast.strides_b);
    kernel(x.data<T>(), y.data<T>(), result.data<T>(), broadcast);
  });
  return result;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  Tensor y = binary("add", a, b, [](auto... args) { kernels::add(args...); });
  if (needs_gradient({a, b})) {
    record(y, "add", {a, b}, [sa = a.shape(), sb = b.shape()](const Tensor& dy) {
      return std::vector<Tensor>{sum_to(dy, sa), sum_to(dy, sb)};
    });
  }
  return y;
}

Tensor sub(const Tensor& a, const Tensor& b) {
  Tensor y = binary("sub", a, b, [](auto... args) { kernels::sub(args...); });
  if (needs_gradient({a, b})) {
    record(y, "sub", {a, b}, [sa = a.shape(), sb = b.shape()](const Tensor& dy) {
      return std::vector<Tensor>{sum_to(dy, sa), neg(sum_to(dy, sb))};
    });
  }
  return y;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor y = binary("mul", a, b, [](auto... args) { kernels::mul(args...); });
  if (needs_gradient({a, b})) {
    const bool needs_a = a.requires_grad(), needs_b = b.requires_grad();
    record(y, "mul", {a, b}, [x = a.detach(), y = b.detach(), needs_a, needs_b](const Tensor& dy) {
      return std::vector<Tensor>{needs_a ? sum_to(dy * y, x.shape()) : Tensor(),
                                 needs_b ? sum_to(dy * x, y.shape()) : Tensor()};
    });
  }
  return y;
}

Tensor div(const Tensor& a, const Tensor& b) {
  Tensor y = binary("div", a, b, [](auto... args) { kernels::div(args...); });
  if (needs_gradient({a, b})) {
    record(y, "div", {a, b}, [quotient = y.detach(), b = b.detach(), sa = a.shape()](const Tensor& dy) {
      const Tensor da = dy / b;
      return std::vector<Tensor>{sum_to(da, sa), neg(sum_to(da * quotient, b.shape()))};
    });
  }
  return y;
}

Tensor add(const Tensor& x, double value) {
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float("add", x.dtype(), [&]<class T>() {
    kernels::add_scalar<T>(input.data<T>(), static_cast<T>(value), y.data<T>(), y.numel());
  });
  if (needs_gradient({x})) {
    record(y, "add", {input}, [](const Tensor& dy) { return std::vector<Tensor>{dy}; });
  }
  return y;
}

Tensor mul(const Tensor& x, double value) {
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float("mul", x.dtype(), [&]<class T>() {
    kernels::scale<T>(input.data<T>(), static_cast<T>(value), y.data<T>(), y.numel());
  });
  if (needs_gradient({x})) {
    record(y, "mul", {input}, [value](const Tensor& dy) { return std::vector<Tensor>{mul(dy, value)}; });
  }
  return y;
}

Tensor neg(const Tensor& x) { return mul(x, -1.0); }

Tensor abs(const Tensor& x) {
  return unary(
      "abs", x, Keeps::input, []<class T>(const T* x, T* y, std::int64_t n) { kernels::abs(x, y, n); },
      []<class T>(const T* x, const T* dy, T* dx, std::int64_t n) { kernels::abs_backward(x, dy, dx, n); });
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (!(low <= high)) {
    throw Error("clamp: expected a lower bound below the upper, got " + std::to_string(low) + " and " +
                std::to_string(high));
  }
  return unary(
      "clamp", x, Keeps::input,
      [low, high]<class T>(const T* x, T* y, std::int64_t n) {
        kernels::clamp(x, static_cast<T>(low), static_cast<T>(high), y, n);
      },
      [low, high]<class T>(const T* x, const T* dy, T* dx, std::int64_t n) {
        kernels::clamp_backward(x, dy, static_cast<T>(low), static_cast<T>(high), dx, n);
      });
}

Tensor exp(const Tensor& x) {
  return unary(
      "exp", x, Keeps::output, []<class T>(const T* x, T* y, std::int64_t n) { kernels::exp(x, y, n); },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t n) { kernels::exp_backward(y, dy, dx, n); });
}

Tensor log(const Tensor& x) {
  return unary(
      "log", x, Keeps::input, []<class T>(const T* x, T* y, std::int64_t n) { kernels::log(x, y, n); },
      []<class T>(const T* x, const T* dy, T* dx, std::int64_t n) { kernels::log_backward(x, dy, dx, n); });
}

Tensor sqrt(const Tensor& x) {
  return unary(
      "sqrt", x, Keeps::output, []<class T>(const T* x, T* y, std::int64_t n) { kernels::sqrt(x, y, n); },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t n) { kernels::sqrt_backward(y, dy, dx, n); });
}

Tensor rsqrt(const Tensor& x) {
  return unary(
      "rsqrt", x, Keeps::output, []<class T>(const T* x, T* y, std::int64_t n) { kernels::rsqrt(x, y, n); },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t n) { kernels::rsqrt_backward(y, dy, dx, n); });
}

}  // namespace heed
