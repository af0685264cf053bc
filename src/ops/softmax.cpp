// Softmax along any axis: the kernel works on the last one, other axes are moved there.
#include "heed/ops/softmax.h"

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "kernels/softmax.h"

namespace heed {
namespace {

template <class Forward, class Gradient>
Tensor along_axis(const char* name, const Tensor& x, int axis, Forward forward, Gradient gradient) {
  const int at = x.shape().normalize(axis);
  if (at != x.rank() - 1) {
    return transpose(along_axis(name, transpose(x, at, -1), -1, forward, gradient), at, -1);
  }
  const Tensor input = x.contiguous();
  const std::int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n;
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch_float(name, x.dtype(),
                 [&]<class T>() { forward.template operator()<T>(input.data<T>(), y.data<T>(), rows, n); });
  if (needs_gradient({x})) {
    record(y, name, {input}, [name, y = y.detach(), rows, n, gradient](const Tensor& dy) {
      const Tensor dense = dy.contiguous();
      Tensor dx = Tensor::empty(dy.shape(), dy.dtype());
      dispatch_float(name, dy.dtype(), [&]<class T>() {
        gradient.template operator()<T>(y.data<T>(), dense.data<T>(), dx.data<T>(), rows, n);
      });
      return std::vector<Tensor>{dx};
    });
  }
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  return along_axis(
      "softmax", x, axis,
      []<class T>(const T* x, T* y, std::int64_t rows, std::int64_t n) { kernels::softmax(x, y, rows, n); },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n) {
        kernels::softmax_backward(y, dy, dx, rows, n);
      });
}

Tensor log_softmax(const Tensor& x, int axis) {
  return along_axis(
      "log_softmax", x, axis,
      []<class T>(const T* x, T* y, std::int64_t rows, std::int64_t n) {
        kernels::log_softmax(x, y, rows, n);
      },
      []<class T>(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t n) {
        kernels::log_softmax_backward(y, dy, dx, rows, n);
      });
}

}  // namespace heed
