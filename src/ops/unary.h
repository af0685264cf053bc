// The common shape of every function of one variable: value, then gradient from its input or its output.
#pragma once

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

}  // namespace heed
