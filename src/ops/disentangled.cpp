// Position terms of disentangled attention.
#include "heed/ops/attention.h"

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "kernels/attention.h"
#include "kernels/embedding.h"
#include "ops/recording.h"

namespace heed {
namespace {

// The sizes, after checks of every operand.
kernels::Disentangled sizes_of(const Tensor& c2p, const Tensor& p2c, const Tensor& buckets,
                               const Tensor& present) {
  const Tensor& queries = c2p.defined() ? c2p : p2c;
  const Tensor& keys = p2c.defined() ? p2c : c2p;
  bool fits = queries.defined() && queries.rank() == 4 && keys.rank() == 4 &&
              queries.dtype() == keys.dtype() && queries.size(0) == keys.size(0) &&
              queries.size(1) == keys.size(1) && queries.size(3) == keys.size(3) &&
              buckets.dtype() == DType::i64 && buckets.shape() == Shape{queries.size(2) + keys.size(2) - 1};
  if (fits && present.defined()) {
    fits = present.dtype() == DType::boolean && present.shape() == Shape{keys.size(0), keys.size(2)} &&
           queries.size(2) == keys.size(2);
  }
  if (!fits) {
    throw Error(
        "disentangled bias: expected c2p [B, H, T, R], p2c [B, H, S, R], buckets i64[T + S - 1] and "
        "present bool[B, S], got " +
        (queries.defined() ? queries.str() + ", " + keys.str() : std::string("no products")) + ", " +
        buckets.str() + (present.defined() ? " and " + present.str() : ""));
  }
  const std::int64_t rows = keys.size(3);
  const std::int64_t outside = kernels::first_outside(buckets.data<std::int64_t>(), buckets.numel(), rows, 0);
  if (outside >= 0) {
    throw Error("disentangled bias: expected buckets in [0, " + std::to_string(rows) + "), got " +
                std::to_string(buckets.data<std::int64_t>()[outside]));
  }
  return {.outer = keys.size(0),
          .heads = keys.size(1),
          .queries = queries.size(2),
          .keys = keys.size(2),
          .rows = rows,
          .buckets = buckets.data<std::int64_t>(),
          .present = present.defined() ? present.data<bool>() : nullptr};
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace

Tensor disentangled_bias(const Tensor& c2p, const Tensor& p2c, const Tensor& buckets, const Tensor& present) {
  const Tensor index = buckets.contiguous(), mask = present.defined() ? present.contiguous() : Tensor();
  const kernels::Disentangled sizes = sizes_of(c2p, p2c, index, mask);
  const auto dense = [](const Tensor& x) { return x.defined() ? x.detach().contiguous() : x; };
  const Tensor own = dense(c2p), others = dense(p2c);
  const DType dtype = (c2p.defined() ? c2p : p2c).dtype();
  Tensor y = Tensor::empty({sizes.outer, sizes.heads, sizes.queries, sizes.keys}, dtype);
  dispatch_float("disentangled bias", dtype, [&]<class T>() {
    kernels::disentangled_bias(sizes, data_or_null<T>(own), data_or_null<T>(others), y.data<T>());
  });
  if (!needs_gradient({c2p, p2c})) return y;
  const bool has_c2p = c2p.defined(), has_p2c = p2c.defined();
  record(
      y, "disentangled bias", {c2p, p2c},
      [=, index = index.detach(), mask = mask.defined() ? mask.detach() : mask](const Tensor& dy) {
        const Tensor dense_dy = dy.contiguous();
        const auto zeros = [&](bool wanted, std::int64_t count) {
          return wanted ? Tensor::zeros({sizes.outer, sizes.heads, count, sizes.rows}, dy.dtype()) : Tensor();
        };
        const Tensor dc2p = zeros(has_c2p, sizes.queries), dp2c = zeros(has_p2c, sizes.keys);
        dispatch_float("disentangled bias", dy.dtype(), [&]<class T>() {
          kernels::disentangled_bias_backward(sizes, dense_dy.data<T>(), data_or_null<T>(dc2p),
                                              data_or_null<T>(dp2c));
        });
        return std::vector<Tensor>{dc2p, dp2c};
      });
  return y;
}

}  // namespace heed
