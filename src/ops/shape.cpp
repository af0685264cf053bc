// Views and rearrangements.
#include "heed/ops/shape.h"

#include <algorithm>
#include <optional>

#include "heed/autograd.h"
#include "heed/ops/reduce.h"
#include "kernels/copy.h"
#include "kernels/embedding.h"

namespace heed {
namespace {

// `shape` with its -1, if any, worked out from the number of elements.
Shape complete_shape(const Tensor& x, const Shape& shape) {
  Shape result = shape;
  std::int64_t known = 1;
  int unknown = -1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == -1 && unknown < 0) {
      unknown = axis;
    } else {
      known *= shape[axis];
    }
  }
  if (unknown >= 0 && known > 0 && x.numel() % known == 0) result[unknown] = x.numel() / known;
  if ((unknown >= 0 && result[unknown] < 0) || result.numel() != x.numel()) {
    throw Error("reshape: expected a shape of " + std::to_string(x.numel()) + " elements, got " +
                shape.str() + " for " + x.str());
  }
  return result;
}

// The strides under which x's memory reads as `target`, if there are such. Neighboring axes of x that lie in
// memory like one longer axis form a group; each must be made up by axes of the target.
std::optional<Shape> view_strides(const Tensor& x, const Shape& target) {
  Shape strides = target;
  int to = target.rank() - 1;
  std::int64_t step = x.rank() > 0 ? x.strides()[x.rank() - 1] : 1, have = 1, given = 1;
  for (int from = x.rank() - 1; from >= 0; --from) {
    have *= x.size(from);
    if (from > 0 && (x.size(from - 1) == 1 || x.strides()[from - 1] == have * step)) continue;
    for (; to >= 0 && (given < have || target[to] == 1); --to) {
      strides[to] = given * step;
      given *= target[to];
    }
    if (given != have) return std::nullopt;
    if (from > 0) step = x.strides()[from - 1];
    have = given = 1;
  }
  return to < 0 ? std::optional<Shape>(strides) : std::nullopt;
}

// to += x, both of one shape and any strides.
void add_to(const Tensor& to, const Tensor& x) {
  kernels::StridedCopy copy;
  copy.rank = to.rank();
  std::copy(to.shape().begin(), to.shape().end(), copy.sizes.begin());
  std::copy(x.strides().begin(), x.strides().end(), copy.src_strides.begin());
  std::copy(to.strides().begin(), to.strides().end(), copy.dst_strides.begin());
  dispatch_float("slice", to.dtype(), [&]<class T>() {
    kernels::accumulate_strided(reinterpret_cast<const T*>(x.raw_data()), reinterpret_cast<T*>(to.raw_data()),
                                copy);
  });
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  const Shape target = complete_shape(x, shape);
  const std::optional<Shape> strides =
      x.is_contiguous() ? contiguous_strides(target) : view_strides(x, target);
  const Tensor source = strides ? x : x.contiguous();
  Tensor y = source.as_strided(target, strides ? *strides : contiguous_strides(target), source.offset());
  if (needs_gradient({x})) {
    record(y, "reshape", {source},
           [from = x.shape()](const Tensor& dy) { return std::vector<Tensor>{reshape(dy, from)}; });
  }
  return y;
}

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  Shape shape, strides;
  std::vector<int> inverse(axes.size(), -1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = x.shape().normalize(axes[i]);
    shape.push_back(x.size(axis));
    strides.push_back(x.strides()[axis]);
    if (static_cast<std::size_t>(axis) < inverse.size())
      inverse[static_cast<std::size_t>(axis)] = static_cast<int>(i);
  }
  if (static_cast<int>(axes.size()) != x.rank() || std::count(inverse.begin(), inverse.end(), -1) > 0) {
    throw Error("permute: expected each axis of " + x.str() + " once, got " + std::to_string(axes.size()) +
                " axes");
  }
  Tensor y = x.as_strided(shape, strides, x.offset());
  if (needs_gradient({x})) {
    record(y, "permute", {x},
           [inverse](const Tensor& dy) { return std::vector<Tensor>{permute(dy, inverse)}; });
  }
  return y;
}

Tensor transpose(const Tensor& x, int a, int b) {
  std::vector<int> axes(static_cast<std::size_t>(x.rank()));
  for (int i = 0; i < x.rank(); ++i) axes[static_cast<std::size_t>(i)] = i;
  std::swap(axes[static_cast<std::size_t>(x.shape().normalize(a))],
            axes[static_cast<std::size_t>(x.shape().normalize(b))]);
  return permute(x, axes);
}

Tensor unsqueeze(const Tensor& x, int axis) {
  const int at = axis < 0 ? axis + x.rank() + 1 : axis;
  if (at < 0 || at > x.rank())
    throw Error("unsqueeze: expected a place among " + x.str() + ", got " + std::to_string(axis));
  Shape shape, strides;
  for (int i = 0; i <= x.rank(); ++i) {
    if (i == at) {
      shape.push_back(1);
      strides.push_back(1);
    }
    if (i < x.rank()) {
      shape.push_back(x.size(i));
      strides.push_back(x.strides()[i]);
    }
  }
  Tensor y = x.as_strided(shape, strides, x.offset());
  if (needs_gradient({x})) {
    record(y, "unsqueeze", {x},
           [from = x.shape()](const Tensor& dy) { return std::vector<Tensor>{reshape(dy, from)}; });
  }
  return y;
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (broadcast_shapes("broadcast_to", x.shape(), shape) != shape) {
    throw Error("broadcast_to: expected a shape that " + x.str() + " stretches to, got " + shape.str());
  }
  Shape strides = shape;
  const int lead = shape.rank() - x.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool repeated = axis < lead || x.size(axis - lead) == 1;
    strides[axis] = repeated ? 0 : x.strides()[axis - lead];
  }
  Tensor y = x.as_strided(shape, strides, x.offset());
  if (needs_gradient({x})) {
    record(y, "broadcast_to", {x},
           [from = x.shape()](const Tensor& dy) { return std::vector<Tensor>{sum_to(dy, from)}; });
  }
  return y;
}

Tensor slice(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  axis = x.shape().normalize(axis);
  if (begin < 0 || end < begin || end > x.size(axis)) {
    throw Error("slice: expected a range within [0, " + std::to_string(x.size(axis)) + "), got [" +
                std::to_string(begin) + ", " + std::to_string(end) + ")");
  }
  Shape shape = x.shape();
  shape[axis] = end - begin;
  Tensor y = x.as_strided(shape, x.strides(), x.offset() + begin * x.strides()[axis]);
  if (needs_gradient({x})) {
    record(y, "slice", {x}, [from = x.shape(), axis, begin, end](const Tensor& dy) {
      // Slices that together make up a tensor (queries, keys and values of one product) share its gradient.
      const bool adds = dy.dtype() == DType::f32 || dy.dtype() == DType::f64;
      if (const Tensor so_far = adds ? gradient_so_far(0) : Tensor(); so_far.defined()) {
        add_to(slice(so_far, axis, begin, end), dy);
        return std::vector<Tensor>{Tensor()};
      }
      Tensor dx = Tensor::zeros(from, dy.dtype());
      slice(dx, axis, begin, end).copy_from(dy);
      return std::vector<Tensor>{dx};
    });
  }
  return y;
}

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  if (parts.empty()) throw Error("concat: expected at least one tensor, got none");
  axis = parts.front().shape().normalize(axis);
  Shape shape = parts.front().shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    Shape expected = shape;
    if (part.rank() == shape.rank()) expected[axis] = part.size(axis);
    if (part.shape() != expected || part.dtype() != parts.front().dtype()) {
      throw Error("concat: expected tensors alike but for axis " + std::to_string(axis) + ", got " +
                  parts.front().str() + " and " + part.str());
    }
    shape[axis] += part.size(axis);
  }
  Tensor y = Tensor::empty(shape, parts.front().dtype());
  std::vector<std::int64_t> sizes;
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    slice(y, axis, at, at + part.size(axis)).copy_from(part);
    sizes.push_back(part.size(axis));
    at += sizes.back();
  }
  if (needs_gradient(parts)) {
    record(y, "concat", parts, [sizes, axis](const Tensor& dy) {
      std::vector<Tensor> gradients;
      std::int64_t begin = 0;
      for (std::int64_t size : sizes) {
        gradients.push_back(slice(dy, axis, begin, begin + size));
        begin += size;
      }
      return gradients;
    });
  }
  return y;
}

Tensor stack(const std::vector<Tensor>& parts, int axis) {
  std::vector<Tensor> wider;
  for (const Tensor& part : parts) wider.push_back(unsqueeze(part, axis));
  return concat(wider, axis);
}

Tensor gather(const Tensor& x, int axis, const Tensor& indices) {
  axis = x.shape().normalize(axis);
  if (axis != 0) return transpose(gather(transpose(x, 0, axis), 0, indices), 0, axis);
  if (indices.rank() != 1) throw Error("gather: expected indices with one axis, got " + indices.str());
  const Tensor rows = indices.contiguous(), from = x.contiguous();
  const std::int64_t* at = rows.data<std::int64_t>();
  const std::int64_t outside = kernels::first_outside(at, rows.numel(), x.size(0), 0);
  if (outside >= 0) {
    throw Error("gather: expected indices below " + std::to_string(x.size(0)) + ", got " +
                std::to_string(at[outside]));
  }
  Shape shape = x.shape();
  shape[0] = rows.numel();
  Tensor y = Tensor::empty(shape, x.dtype());
  const std::size_t row_bytes =
      x.size(0) == 0 ? 0 : static_cast<std::size_t>(x.numel() / x.size(0)) * size_of(x.dtype());
  kernels::gather_rows(from.raw_data(), at, rows.numel(), row_bytes, y.raw_data());
  if (needs_gradient({x})) {
    record(y, "gather", {from}, [rows, from = x.shape()](const Tensor& dy) {
      const Tensor dense = dy.contiguous();
      Tensor dx = Tensor::zeros(from, dy.dtype());
      const std::int64_t width = from[0] == 0 ? 0 : from.numel() / from[0];
      dispatch_float("gather", dy.dtype(), [&]<class T>() {
        kernels::embedding_backward<T>(dense.data<T>(), {rows.data<std::int64_t>(), rows.numel(), width},
                                       T{1}, dx.data<T>());
      });
      return std::vector<Tensor>{dx};
    });
  }
  return y;
}

}  // namespace heed
