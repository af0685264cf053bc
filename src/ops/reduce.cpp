// Reductions over one axis or over everything.
#include "heed/ops/reduce.h"

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "kernels/reduce.h"
#include "ops/reduce.h"

namespace heed {
namespace {

// A tensor seen as [outer, n, inner] around the reduced axis.
struct Split {
  kernels::Axis axis;
  Shape kept, dropped;  // the result's shape with and without an axis of size 1
};

Split split_at(const Shape& shape, int axis) {
  Split s;
  axis = shape.normalize(axis);
  for (int i = 0; i < shape.rank(); ++i) {
    (i < axis ? s.axis.outer : i == axis ? s.axis.n : s.axis.inner) *= shape[i];
    s.kept.push_back(i == axis ? 1 : shape[i]);
    if (i != axis) s.dropped.push_back(shape[i]);
  }
  return s;
}

}  // namespace

Tensor sum(const Tensor& x, int axis, bool keep) {
  const Split s = split_at(x.shape(), axis);
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(keep ? s.kept : s.dropped, x.dtype());
  dispatch_float("sum", x.dtype(), [&]<class T>() { kernels::sum(input.data<T>(), y.data<T>(), s.axis); });
  if (needs_gradient({x})) {
    record(y, "sum", {input}, [kept = s.kept, shape = x.shape()](const Tensor& dy) {
      return std::vector<Tensor>{broadcast_to(reshape(dy, kept), shape)};
    });
  }
  return y;
}

Tensor mean(const Tensor& x, int axis, bool keep) {
  const std::int64_t n = x.size(axis);
  return mul(sum(x, axis, keep), n > 0 ? 1.0 / static_cast<double>(n) : 0.0);
}

Tensor max(const Tensor& x, int axis, bool keep) {
  const Split s = split_at(x.shape(), axis);
  if (s.axis.n == 0) throw Error("max: expected a non-empty axis, got " + x.str());
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(keep ? s.kept : s.dropped, x.dtype());
  Tensor where = Tensor::empty(y.shape(), DType::i64);
  dispatch_float("max", x.dtype(), [&]<class T>() {
    kernels::max(input.data<T>(), y.data<T>(), where.data<std::int64_t>(), s.axis);
  });
  if (needs_gradient({x})) {
    record(y, "max", {input}, [s, where, shape = x.shape()](const Tensor& dy) {
      const Tensor dense = dy.contiguous();
      Tensor dx = Tensor::zeros(shape, dy.dtype());
      dispatch_float("max", dy.dtype(), [&]<class T>() {
        kernels::max_backward(dense.data<T>(), where.data<std::int64_t>(), dx.data<T>(), s.axis);
      });
      return std::vector<Tensor>{dx};
    });
  }
  return y;
}

Tensor argmax(const Tensor& x, int axis, bool keep) {
  const Split s = split_at(x.shape(), axis);
  if (s.axis.n == 0) throw Error("argmax: expected a non-empty axis, got " + x.str());
  const Tensor input = x.detach().contiguous();
  Tensor largest = Tensor::empty(s.dropped, x.dtype());
  Tensor where = Tensor::empty(keep ? s.kept : s.dropped, DType::i64);
  dispatch_float("argmax", x.dtype(), [&]<class T>() {
    kernels::max(input.data<T>(), largest.data<T>(), where.data<std::int64_t>(), s.axis);
  });
  return where;
}

Tensor top_k(const Tensor& x, std::int64_t k) {
  const std::int64_t n = x.size(-1);
  if (k < 0 || k > n) {
    throw Error("top_k: expected at most " + std::to_string(n) + " of " + x.str() + ", got " +
                std::to_string(k));
  }
  const Tensor input = x.detach().contiguous();
  Shape shape = x.shape();
  shape[x.rank() - 1] = k;
  Tensor chosen = Tensor::empty(shape, DType::i64);
  const std::int64_t rows = n == 0 ? 0 : x.numel() / n;
  dispatch_float("top_k", x.dtype(), [&]<class T>() {
    kernels::top_k(input.data<T>(), chosen.data<std::int64_t>(), rows, n, k);
  });
  return chosen;
}

Tensor sum(const Tensor& x) { return sum(reshape(x, {x.numel()}), 0); }
Tensor mean(const Tensor& x) { return mean(reshape(x, {x.numel()}), 0); }

double sum_of_squares(const Tensor& x) {
  refuse_gradient("sum_of_squares", {x});
  const Tensor input = x.contiguous();
  return dispatch_float("sum_of_squares", x.dtype(),
                        [&]<class T>() { return kernels::sum_of_squares(input.data<T>(), input.numel()); });
}

bool all_finite(const Tensor& x) {
  const Tensor input = x.detach().contiguous();
  return dispatch_float("all_finite", x.dtype(),
                        [&]<class T>() { return kernels::all_finite(input.data<T>(), input.numel()); });
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Tensor y = x;
  const int lead = x.rank() - shape.rank();
  if (lead > 0) {
    std::int64_t repeats = 1;
    for (int axis = 0; axis < lead; ++axis) repeats *= x.size(axis);
    Shape rest;
    rest.push_back(repeats);
    for (int axis = lead; axis < x.rank(); ++axis) rest.push_back(x.size(axis));
    y = sum(reshape(x, rest), 0);
  }
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1 && y.size(axis) != 1) y = sum(y, axis, true);
  }
  return y;
}

Tensor weighted_mean(const Tensor& x, std::span<const double> weights, double divisor) {
  const std::int64_t rows = x.size(0), width = x.size(1);
  HEED_ASSERT(rows == std::ssize(weights), "one weight for each row");
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty({width});
  kernels::weighted_mean(input.data<float>(), weights.data(), divisor, rows, width, y.data<float>());
  if (needs_gradient({x})) {
    const std::vector<double> kept(weights.begin(), weights.end());
    record(y, "weighted_mean", {input}, [kept, divisor, shape = x.shape()](const Tensor& dy) {
      const Tensor dense = dy.contiguous(), dx = Tensor::empty(shape);
      kernels::weighted_mean_backward(dense.data<float>(), kept.data(), divisor, shape[0], shape[1],
                                      dx.data<float>());
      return std::vector<Tensor>{dx};
    });
  }
  return y;
}

Tensor normalize_rows(const Tensor& x, double least) {
  const Tensor input = x.contiguous();
  Tensor y = Tensor::empty(x.shape());
  kernels::normalize_rows(input.data<float>(), least, x.size(0), x.size(1), y.data<float>());
  if (needs_gradient({x})) {
    record(y, "normalize_rows", {input}, [kept = input.detach(), least](const Tensor& dy) {
      const Tensor dense = dy.contiguous(), dx = Tensor::empty(kept.shape());
      kernels::normalize_rows_backward(kept.data<float>(), dense.data<float>(), least, kept.size(0),
                                       kept.size(1), dx.data<float>());
      return std::vector<Tensor>{dx};
    });
  }
  return y;
}

}  // namespace heed
