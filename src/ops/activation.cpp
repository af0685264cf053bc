// Activation functions and their names.
#include "heed/ops/activation.h"

#include <string>

#include "core/strings.h"
#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "kernels/elementwise.h"
#include "ops/recording.h"

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

Tensor softcap(const Tensor& x, double cap) {
  if (!(cap > 0)) throw Error("softcap: expected a cap above 0, got " + std::to_string(cap));
  return tanh(x * (1.0 / cap)) * cap;
}

namespace {

struct NamedActivation {
  const char* name;
  Activation activation;
};
constexpr NamedActivation kNamed[] = {{"relu", Activation::relu},
                                      {"gelu", Activation::gelu},
                                      {"gelu_python", Activation::gelu},
                                      {"gelu_new", Activation::gelu_tanh},
                                      {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                      {"gelu_fast", Activation::gelu_tanh},
                                      {"gelu_python_tanh", Activation::gelu_tanh},
                                      {"gelu_accurate", Activation::gelu_tanh},
                                      {"quick_gelu", Activation::quick_gelu},
                                      {"gelu_10", Activation::gelu_10},
                                      {"silu", Activation::silu},
                                      {"swish", Activation::silu},
                                      {"tanh", Activation::tanh},
                                      {"sigmoid", Activation::sigmoid},
                                      {"relu2", Activation::relu2},
                                      {"relu6", Activation::relu6},
                                      {"leaky_relu", Activation::leaky_relu},
                                      {"hardswish", Activation::hardswish},
                                      {"mish", Activation::mish},
                                      {"laplace", Activation::laplace},
                                      {"sqrtsoftplus", Activation::sqrt_softplus},
                                      {"linear", Activation::none}};

}  // namespace

Activation activation_named(std::string_view name) {
  for (const NamedActivation& named : kNamed) {
    if (name == named.name) return named.activation;
  }
  throw Error("activation: expected one of " + joined(kNamed, ", ", &NamedActivation::name) + ", got \"" +
              std::string(name) + "\"");
}

Tensor activate(const Tensor& x, Activation activation) {
  if (activation == Activation::none) return x;
  return unary(
      "activation", x, kernels::gradient_takes_output(activation) ? Keeps::output : Keeps::input,
      [activation]<class T>(const T* x, T* y, std::int64_t n) { kernels::activate(activation, x, y, n); },
      [activation]<class T>(const T* kept, const T* dy, T* dx, std::int64_t n) {
        kernels::activate_backward(activation, kept, dy, dx, n);
      });
}

namespace {

/// Those that are the gate of a published model, in one pass; any other is activate and multiply.
bool has_gated_kernel(Activation activation) {
  return activation == Activation::relu || activation == Activation::gelu ||
         activation == Activation::gelu_tanh || activation == Activation::silu ||
         activation == Activation::sigmoid;
}

template <class T>
void gated_values(Activation activation, const T* gate, const T* x, T* y, std::int64_t n) {
  switch (activation) {
    case Activation::relu: return kernels::gated_relu(gate, x, y, n);
    case Activation::gelu: return kernels::gated_gelu(gate, x, y, n);
    case Activation::gelu_tanh: return kernels::gated_gelu_tanh(gate, x, y, n);
    case Activation::silu: return kernels::gated_silu(gate, x, y, n);
    case Activation::sigmoid: return kernels::gated_sigmoid(gate, x, y, n);
    default: break;
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
    default: break;
  }
}

}  // namespace

Tensor gated(const Tensor& gate, const Tensor& x, Activation activation) {
  if (gate.shape() != x.shape() || gate.dtype() != x.dtype()) {
    throw Error("gated: expected a gate like x, got " + gate.str() + " and " + x.str());
  }
  if (!has_gated_kernel(activation)) return activate(gate, activation) * x;
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

Tensor dropout(const Tensor& x, double p, RandomStream stream) {
  if (!(p >= 0.0 && p < 1.0))
    throw Error("dropout: expected a probability in [0, 1), got " + std::to_string(p));
  if (p == 0.0) return x;
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float("dropout", x.dtype(),
                 [&]<class T>() { kernels::dropout(input.data<T>(), y.data<T>(), y.numel(), p, stream); });
  if (needs_gradient({x})) {
    record(y, "dropout", {input},
           [p, stream](const Tensor& dy) { return std::vector<Tensor>{dropout(dy, p, stream)}; });
  }
  return y;
}

}  // namespace heed
