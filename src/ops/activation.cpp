// Activation functions and their names.
#include "heed/ops/activation.h"

#include <string>

#include "heed/ops/elementwise.h"
#include "kernels/elementwise.h"
#include "ops/unary.h"

namespace heed {

Tensor relu(const Tensor& x) {
  return unary(
      "relu", x, Keeps::output, []<class T>(const T* x, T* y, std::int64_t n) { kernels::relu(x, y, n); },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t n) { kernels::relu_backward(y, dy, dx, n); });
}

Tensor gelu(const Tensor& x) {
  return unary(
      "gelu", x, Keeps::input, []<class T>(const T* x, T* y, std::int64_t n) { kernels::gelu(x, y, n); },
      []<class T>(const T* x, const T* dy, T* dx, std::int64_t n) { kernels::gelu_backward(x, dy, dx, n); });
}

Tensor gelu_tanh(const Tensor& x) {
  return unary(
      "gelu_tanh", x, Keeps::input,
      []<class T>(const T* x, T* y, std::int64_t n) { kernels::gelu_tanh(x, y, n); },
      []<class T>(const T* x, const T* dy, T* dx, std::int64_t n) {
        kernels::gelu_tanh_backward(x, dy, dx, n);
      });
}

Tensor silu(const Tensor& x) {
  return unary(
      "silu", x, Keeps::input, []<class T>(const T* x, T* y, std::int64_t n) { kernels::silu(x, y, n); },
      []<class T>(const T* x, const T* dy, T* dx, std::int64_t n) { kernels::silu_backward(x, dy, dx, n); });
}

Tensor tanh(const Tensor& x) {
  return unary(
      "tanh", x, Keeps::output, []<class T>(const T* x, T* y, std::int64_t n) { kernels::tanh(x, y, n); },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t n) { kernels::tanh_backward(y, dy, dx, n); });
}

Tensor sigmoid(const Tensor& x) {
  return unary(
      "sigmoid", x, Keeps::output,
      []<class T>(const T* x, T* y, std::int64_t n) { kernels::sigmoid(x, y, n); },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t n) {
        kernels::sigmoid_backward(y, dy, dx, n);
      });
}

Activation activation_named(std::string_view name) {
  if (name == "relu") return Activation::relu;
  if (name == "gelu" || name == "gelu_python") return Activation::gelu;
  for (const char* tanh : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python_tanh", "gelu_accurate"})
    if (name == tanh) return Activation::gelu_tanh;
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "tanh") return Activation::tanh;
  if (name == "sigmoid") return Activation::sigmoid;
  if (name == "linear") return Activation::none;
  throw Error(
      "activation: expected relu, gelu, gelu_python, gelu_new, gelu_pytorch_tanh, gelu_fast, "
      "gelu_python_tanh, "
      "gelu_accurate, silu, swish, tanh, sigmoid or linear, got \"" +
      std::string(name) + "\"");
}

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return relu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::silu: return silu(x);
    case Activation::tanh: return tanh(x);
    case Activation::sigmoid: return sigmoid(x);
  }
  HEED_ASSERT(false, "unknown activation");
}

namespace {

template <class T>
void gated_values(Activation activation, const T* gate, const T* x, T* y, std::int64_t n) {
  switch (activation) {
    case Activation::relu: return kernels::gated_relu(gate, x, y, n);
    case Activation::gelu: return kernels::gated_gelu(gate, x, y, n);
    case Activation::gelu_tanh: return kernels::gated_gelu_tanh(gate, x, y, n);
    case Activation::silu: return kernels::gated_silu(gate, x, y, n);
    case Activation::sigmoid: return kernels::gated_sigmoid(gate, x, y, n);
    case Activation::tanh:
    case Activation::none: break;
  }
}

template <class T>
void gated_gradients(Activation activation, const kernels::GatedBackward<T>& args) {
  switch (activation) {
    case Activation::relu: return kernels::gated_relu_backward(args);
    case Activation::gelu: return kernels::gated_gelu_backward(args);
    case Activation::gelu_tanh: return kernels::gated_gelu_tanh_backward(args);
    case Activation::silu: return kernels::gated_silu_backward(args);
    case Activation::sigmoid: return kernels::gated_sigmoid_backward(args);
    case Activation::tanh:
    case Activation::none: break;
  }
}

}  // namespace

Tensor gated(const Tensor& gate, const Tensor& x, Activation activation) {
  if (gate.shape() != x.shape() || gate.dtype() != x.dtype()) {
    throw Error("gated: expected a gate like x, got " + gate.str() + " and " + x.str());
  }
  if (activation == Activation::tanh || activation == Activation::none) return activate(gate, activation) * x;
  const Tensor g = gate.contiguous(), input = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float("gated", x.dtype(), [&]<class T>() {
    gated_values(activation, g.data<T>(), input.data<T>(), y.data<T>(), y.numel());
  });
  if (needs_gradient({gate, x})) {
    record(y, "gated", {g, input}, [g = g.detach(), x = input.detach(), activation](const Tensor& dy) {
      const Tensor dense = dy.contiguous();
      Tensor dgate = Tensor::empty(x.shape(), x.dtype()), dx = Tensor::empty(x.shape(), x.dtype());
      dispatch_float("gated", x.dtype(), [&]<class T>() {
        gated_gradients(activation, kernels::GatedBackward<T>{g.data<T>(), x.data<T>(), dense.data<T>(),
                                                              dgate.data<T>(), dx.data<T>(), x.numel()});
      });
      return std::vector<Tensor>{dgate, dx};
    });
  }
  return y;
}

}  // namespace heed
