// How operations record their gradients: those of one variable, and those with several results.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "heed/tensor.h"

namespace heed {

/// What a gradient kernel is given besides dy: the operation's input or its output.
enum class Keeps { input, output };

/// y = forward(x); dx = backward(kept, dy). Both are generic lambdas over the element type:
/// `[]<class T>(const T* x, T* y, n)` and `[]<class T>(const T* kept, const T* dy, T* dx, n)`.
template <class Forward, class Gradient>
Tensor unary(const char* name, const Tensor& x, Keeps keeps, Forward forward, Gradient gradient) {
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(name, x.dtype(),
                 [&]<class T>() { forward.template operator()<T>(input.data<T>(), y.data<T>(), y.numel()); });
  if (needs_gradient({x})) {
    const Tensor kept = keeps == Keeps::input ? input.detach() : y.detach();
    record(y, name, {input}, [name, kept, gradient](const Tensor& dy) {
      const Tensor dense = dy.contiguous();
      Tensor dx = Tensor::empty(dense.shape(), dense.dtype());
      dispatch_float(name, dense.dtype(), [&]<class T>() {
        gradient.template operator()<T>(kept.data<T>(), dense.data<T>(), dx.data<T>(), dx.numel());
      });
      return std::vector<Tensor>{dx};
    });
  }
  return y;
}

// Operations with several results. The walk back knows one gradient for each operation; here every result's
// goes to a joint node, which runs the closure once they have all arrived.

/// record() for several outputs of one floating dtype. The closure gets their gradients in order, undefined
/// for those that nothing used.
inline void record_results(std::vector<Tensor> outputs, const char* operation,
                           const std::vector<Tensor>& inputs,
                           std::function<std::vector<Tensor>(std::vector<Tensor>)> backward) {
  const DType dtype = outputs.front().dtype();
  auto arrived = std::make_shared<std::vector<Tensor>>(outputs.size());
  Tensor joint = Tensor::zeros({}, dtype);  // its gradient shows only that one of the others has arrived
  record(joint, operation, inputs, [arrived, backward = std::move(backward)](const Tensor&) {
    return backward(std::exchange(*arrived, {}));
  });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    record(outputs[i], operation, {joint}, [arrived, i, dtype](const Tensor& gradient) {
      (*arrived)[i] = gradient;
      return std::vector<Tensor>{Tensor::zeros({}, dtype)};
    });
  }
}

}  // namespace heed
