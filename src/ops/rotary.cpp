// Rotary positions, fused and by the formula.
#include "heed/ops/rotary.h"

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "kernels/rotary.h"

namespace heed {
namespace {

void check_cos_sin(const Tensor& x, const Tensor& cos_sin) {
  bool fits = x.rank() == 4 && (cos_sin.rank() == 2 || cos_sin.rank() == 3) && cos_sin.dtype() == x.dtype();
  if (fits) {
    fits = cos_sin.size(-2) == x.size(2) && cos_sin.size(-1) % 2 == 0 && cos_sin.size(-1) <= x.size(3) &&
           (cos_sin.rank() == 2 || cos_sin.size(0) == x.size(0));
  }
  if (!fits) {
    throw Error("rotary: expected x [B, H, T, d] and cos_sin [T, r] or [B, T, r] with even r <= d, got " +
                x.str() + " and " + cos_sin.str());
  }
  refuse_gradient("rotary's cos_sin", {cos_sin});
}

kernels::HeadStrides head_strides(const Tensor& x) {
  return {x.strides()[0], x.strides()[1], x.strides()[2]};
}

// The result lies in memory as [B, T, H, d], which is how projections and attention want it.
Tensor rotated(const Tensor& x, const Tensor& cos_sin, RotaryLayout layout, bool transposed) {
  const bool rows_are_dense = x.size(3) <= 1 || x.strides()[3] == 1;
  const Tensor input = rows_are_dense ? x.detach() : x.detach().contiguous();
  Tensor y = permute(Tensor::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.dtype()), {0, 2, 1, 3});
  dispatch_float("rotary", x.dtype(), [&]<class T>() {
    kernels::Rotary<T> args;
    args.batch = x.size(0);
    args.heads = x.size(1);
    args.time = x.size(2);
    args.head_dim = x.size(3);
    args.rotary_dim = cos_sin.size(-1);
    args.interleaved = layout == RotaryLayout::interleaved;
    args.transposed = transposed;
    args.x = reinterpret_cast<const T*>(input.raw_data());
    args.cos_sin = cos_sin.data<T>();
    args.y = reinterpret_cast<T*>(y.raw_data());
    args.x_strides = head_strides(input);
    args.y_strides = head_strides(y);
    args.cos_sin_batch = cos_sin.rank() == 3 ? cos_sin.size(1) * cos_sin.size(2) : 0;
    kernels::rotary(args);
  });
  return y;
}

}  // namespace

Tensor rotary(const Tensor& x, const Tensor& cos_sin, RotaryLayout layout) {
  check_cos_sin(x, cos_sin);
  const Tensor dense = cos_sin.detach().contiguous();
  Tensor y = rotated(x, dense, layout, false);
  if (needs_gradient({x})) {
    record(y, "rotary", {x}, [dense, layout](const Tensor& dy) {
      return std::vector<Tensor>{rotated(dy, dense, layout, true)};
    });
  }
  return y;
}

Tensor rotary_by_formula(const Tensor& x, const Tensor& cos_sin, RotaryLayout layout) {
  check_cos_sin(x, cos_sin);
  const std::int64_t r = cos_sin.size(-1), half = r / 2;
  const Tensor each = cos_sin.rank() == 3 ? unsqueeze(cos_sin, 1) : cos_sin;  // [B, 1, T, r] or [T, r]
  const Tensor c = slice(each, -1, 0, half), s = slice(each, -1, half, r);
  const Tensor part = slice(x, 3, 0, r), rest = slice(x, 3, r, x.size(3));
  Tensor y;
  if (layout == RotaryLayout::halves) {
    const Tensor a = slice(part, 3, 0, half), b = slice(part, 3, half, r);
    y = concat({a * c - b * s, b * c + a * s}, 3);
  } else {
    const Tensor pairs = reshape(part, {x.size(0), x.size(1), x.size(2), half, 2});
    const Tensor a = reshape(slice(pairs, 4, 0, 1), {x.size(0), x.size(1), x.size(2), half});
    const Tensor b = reshape(slice(pairs, 4, 1, 2), {x.size(0), x.size(1), x.size(2), half});
    y = reshape(stack({a * c - b * s, b * c + a * s}, 4), {x.size(0), x.size(1), x.size(2), r});
  }
  return concat({y, rest}, 3);
}

}  // namespace heed
