// What attention asks of its arguments, how it reads them, and what the kernels get of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/ops/attention.h"
#include "heed/ops/shape.h"
#include "kernels/attention.h"

namespace heed {

inline constexpr const char* kAttentionName = "scaled_dot_product_attention";

struct AttentionSizes {
  std::int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
};

/// The sizes of q, k and v; throws Error when they do not fit together.
AttentionSizes attention_sizes(const Tensor& q, const Tensor& k, const Tensor& v,
                               const char* name = kAttentionName);

/// What is calculated in, and what masks and biases are given in.
DType attention_compute_type(const Tensor& q);

/// Throws Error when an option does not fit the sizes or the type.
void check_attention_options(const AttentionSizes& n, DType compute, const AttentionOptions& o);

/// Throws Error unless the masks, where defined, are bool [B, S] and i64 [B].
void check_key_masks(const char* name, const AttentionSizes& n, const Tensor& key_mask,
                     const Tensor& key_lengths);
/// Both masks as one, bool [B, S]; undefined where no key is hidden.
Tensor visible_keys(const AttentionSizes& n, const Tensor& key_mask, const Tensor& key_lengths);

/// Keys or values of any stored type as numbers of the type calculated in.
Tensor widened(const Tensor& stored, DType compute);

/// What products of queries with keys are multiplied by.
double attention_scale(const AttentionOptions& options, const AttentionSizes& n);

/// The requested heads and queries, as the kernel takes them; all if none are named.
struct WantedWeights {
  std::vector<std::int64_t> heads, queries;
  std::unique_ptr<bool[]> flags;  // by head

  /// Throws Error when there is no such head or query, or heads are not in growing order.
  WantedWeights(const AttentionWeights& weights, const AttentionSizes& n);
};

/// The kernels read any strides but want each row of numbers dense.
inline Tensor dense_rows(const Tensor& x) {
  return x.strides()[-1] == 1 || x.size(-1) <= 1 ? x : x.contiguous();
}

inline kernels::AttentionStrides strides_of(const Tensor& x) {
  return {x.strides()[0], x.strides()[1], x.strides()[2]};
}

/// [B, H, T, d] laid out in memory as [B, T, H, d], so that joining the heads afterward costs nothing.
inline Tensor heads_inside(std::int64_t batch, std::int64_t heads, std::int64_t time, std::int64_t width,
                           DType dtype) {
  return permute(Tensor::empty({batch, time, heads, width}, dtype), {0, 2, 1, 3});
}

/// Operands and result of one call of a kernel.
struct AttentionOperands {
  Tensor q, k, v, o;

  /// The numbers of q, k and v, and an empty result in the type of q.
  AttentionOperands(const AttentionSizes& n, const Tensor& query, const Tensor& key, const Tensor& value)
      : q(dense_rows(query.detach())),
        k(dense_rows(key.detach())),
        v(dense_rows(value.detach())),
        o(heads_inside(n.batch, n.heads, n.queries, n.value_dim, query.dtype())) {}

  kernels::AttentionShape shape(const AttentionSizes& n) const {
    return {n.batch,     n.heads,       n.kv_heads,    n.queries,     n.keys,       n.head_dim,
            n.value_dim, strides_of(q), strides_of(k), strides_of(v), strides_of(o)};
  }
  /// Empty gradients of q, k and v in the type of q.
  std::vector<Tensor> empty_gradients(const AttentionSizes& n) const {
    return {heads_inside(n.batch, n.heads, n.queries, n.head_dim, q.dtype()),
            heads_inside(n.batch, n.kv_heads, n.keys, n.head_dim, q.dtype()),
            heads_inside(n.batch, n.kv_heads, n.keys, n.value_dim, q.dtype())};
  }
  /// The arguments of a forward pass.
  template <class Forward>
  void give(Forward& args) const {
    args.q = reinterpret_cast<decltype(args.q)>(q.raw_data());
    args.k = reinterpret_cast<decltype(args.k)>(k.raw_data());
    args.v = reinterpret_cast<decltype(args.v)>(v.raw_data());
    args.o = reinterpret_cast<decltype(args.o)>(o.raw_data());
  }
  /// Those of a backward pass into `gradients`.
  template <class T>
  void give(kernels::AttentionGradients<T>& args, const Tensor& d_o,
            const std::vector<Tensor>& gradients) const {
    give(args);
    args.d_o = reinterpret_cast<const T*>(d_o.raw_data());
    args.dq = reinterpret_cast<T*>(gradients[0].raw_data());
    args.dk = reinterpret_cast<T*>(gradients[1].raw_data());
    args.dv = reinterpret_cast<T*>(gradients[2].raw_data());
    args.d_o_strides = strides_of(d_o);
    args.dq_strides = strides_of(gradients[0]);
    args.dk_strides = strides_of(gradients[1]);
    args.dv_strides = strides_of(gradients[2]);
  }
};

}  // namespace heed
