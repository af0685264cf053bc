// Activation functions and their names.
#include "heed/ops/activation.h"

#include <string>

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
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "tanh") return Activation::tanh;
  if (name == "sigmoid") return Activation::sigmoid;
  if (name == "linear") return Activation::none;
  throw Error(
      "activation: expected relu, gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, silu, swish, tanh, sigmoid "
      "or "
      "linear, got \"" +
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

}  // namespace heed
