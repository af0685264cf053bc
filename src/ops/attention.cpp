// Scaled dot-product attention: the fused kernel with its gradient.
#include "heed/ops/attention.h"

#include <optional>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "ops/attention_checks.h"
#include "ops/attention_layout.h"

namespace heed {
namespace {

// A contiguous mask seen with four axes.
Tensor four_axes(const Tensor& mask) {
  Tensor m = mask.contiguous();
  while (m.rank() < 4) m = unsqueeze(m, 0);
  return m;
}

kernels::MaskStrides mask_strides(const Tensor& mask) {
  auto step = [&](int axis) { return mask.size(axis) == 1 ? 0 : mask.strides()[axis]; };
  return {step(0), step(1), step(2), step(3)};
}

// Dense tensors the kernel's option pointers refer to; must outlive the call.
struct Masks {
  Tensor mask, key_mask, lengths, offsets, starts, relative, slopes;
};

Masks dense_masks(const AttentionOptions& options) {
  Masks m;
  if (options.mask.defined()) m.mask = four_axes(options.mask);
  if (options.key_mask.defined()) m.key_mask = options.key_mask.contiguous();
  if (options.key_lengths.defined()) m.lengths = options.key_lengths.contiguous();
  if (options.query_offsets.defined()) m.offsets = options.query_offsets.contiguous();
  if (options.key_starts.defined()) m.starts = options.key_starts.contiguous();
  if (options.relative_bias.defined()) m.relative = options.relative_bias.detach().contiguous();
  if (options.alibi_slopes.defined()) m.slopes = options.alibi_slopes.contiguous();
  return m;
}

template <class T>
kernels::AttentionOptions<T> kernel_options(const AttentionOptions& options, const Masks& masks,
                                            double scale) {
  kernels::AttentionOptions<T> k;
  k.scale = scale;
  k.cap = options.score_cap;
  k.causal = options.causal;
  k.window = options.window;
  k.dropout = options.dropout;
  k.random = options.stream;
  if (masks.key_mask.defined()) k.key_mask = masks.key_mask.data<bool>();
  if (masks.lengths.defined()) k.key_lengths = masks.lengths.data<std::int64_t>();
  if (masks.offsets.defined()) k.query_offsets = masks.offsets.data<std::int64_t>();
  if (masks.starts.defined()) k.key_starts = masks.starts.data<std::int64_t>();
  if (masks.relative.defined()) k.relative_bias = masks.relative.data<T>();
  if (masks.slopes.defined()) k.alibi_slopes = masks.slopes.data<T>();
  if (masks.mask.defined() && masks.mask.dtype() == DType::boolean) {
    k.mask = masks.mask.data<bool>();
    k.mask_strides = mask_strides(masks.mask);
  } else if (masks.mask.defined()) {
    k.bias = masks.mask.data<T>();
    k.bias_strides = mask_strides(masks.mask);
  }
  return k;
}

kernels::AttentionShape kernel_shape(const AttentionSizes& n, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const Tensor& o) {
  return {n.batch,     n.heads,       n.kv_heads,    n.queries,     n.keys,       n.head_dim,
          n.value_dim, strides_of(q), strides_of(k), strides_of(v), strides_of(o)};
}

// Calls fn with the type that keys and values are stored in.
template <class Fn>
void dispatch_storage(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f64: return fn.template operator()<double>();
    case DType::f32: return fn.template operator()<float>();
    case DType::bf16: return fn.template operator()<bfloat16>();
    case DType::f16: return fn.template operator()<float16>();
    default: throw_unsupported_dtype(kAttentionName, dtype, "a floating type");
  }
}

// One call of the forward kernel: o and, where defined, logsumexp and weights are filled.
struct Forward {
  AttentionSizes n;
  Tensor q, k, v;  // q in the type calculated in
  AttentionOptions options;
  Masks masks;
  double scale;
  Tensor o, logsumexp;

  void run(AttentionWeights* weights) const {
    std::optional<WantedWeights> wanted;
    if (weights != nullptr) {
      wanted.emplace(*weights, n);
      const auto rows = static_cast<std::int64_t>(wanted->queries.size());
      weights->values =
          Tensor::empty({n.batch, static_cast<std::int64_t>(wanted->heads.size()), rows, n.keys}, q.dtype());
    }
    dispatch_storage(k.dtype(), [&]<class S>() {
      using T = kernels::AttentionCompute<S>;
      kernels::AttentionForward<S> args;
      args.q = reinterpret_cast<const T*>(q.raw_data());
      args.k = reinterpret_cast<const S*>(k.raw_data());
      args.v = reinterpret_cast<const S*>(v.raw_data());
      args.o = reinterpret_cast<T*>(o.raw_data());
      if (logsumexp.defined()) args.logsumexp = logsumexp.data<T>();
      if (wanted) {
        args.weights = weights->values.template data<T>();
        args.weight_heads = wanted->flags.get();
        args.weight_rows = wanted->queries.data();
        args.weight_row_count = static_cast<std::int64_t>(wanted->queries.size());
      }
      kernels::attention(kernel_shape(n, q, k, v, o), kernel_options<T>(options, masks, scale), args);
    });
  }

  // Gradients of q, k, v, the mask and the relative bias, in the type calculated in; those not asked for are
  // undefined.
  std::vector<Tensor> gradients(const Tensor& d_o, bool needs_bias, bool needs_relative) const {
    const DType type = q.dtype();
    const Tensor wide_k = k.to(type), wide_v = v.to(type);
    const Tensor dq = heads_inside(n.batch, n.heads, n.queries, n.head_dim, type);
    const Tensor dk = heads_inside(n.batch, n.kv_heads, n.keys, n.head_dim, type);
    const Tensor dv = heads_inside(n.batch, n.kv_heads, n.keys, n.value_dim, type);
    const Tensor dbias = needs_bias ? Tensor::empty(masks.mask.shape(), type) : Tensor();
    const Tensor d_relative = needs_relative ? Tensor::empty(masks.relative.shape(), type) : Tensor();
    dispatch_float(kAttentionName, type, [&]<class T>() {
      kernels::AttentionBackward<T> args;
      args.q = reinterpret_cast<const T*>(q.raw_data());
      args.k = reinterpret_cast<const T*>(wide_k.raw_data());
      args.v = reinterpret_cast<const T*>(wide_v.raw_data());
      args.o = reinterpret_cast<const T*>(o.raw_data());
      args.logsumexp = logsumexp.data<T>();
      args.d_o = reinterpret_cast<const T*>(d_o.raw_data());
      args.dq = reinterpret_cast<T*>(dq.raw_data());
      args.dk = reinterpret_cast<T*>(dk.raw_data());
      args.dv = reinterpret_cast<T*>(dv.raw_data());
      if (needs_bias) args.dbias = dbias.data<T>();
      if (needs_relative) args.d_relative_bias = d_relative.data<T>();
      args.d_o_strides = strides_of(d_o);
      args.dq_strides = strides_of(dq);
      args.dk_strides = strides_of(dk);
      args.dv_strides = strides_of(dv);
      kernels::attention_backward(kernel_shape(n, q, wide_k, wide_v, o),
                                  kernel_options<T>(options, masks, scale), args);
    });
    return {dq, dk, dv, needs_bias ? reshape(dbias, options.mask.shape()) : Tensor(), d_relative};
  }
};

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value);
  const DType compute = attention_compute_type(query);
  check_attention_options(n, compute, options);
  const bool recording = needs_gradient({query, key, value, options.mask, options.relative_bias});
  Forward call{n,
               dense_rows(query.detach().to(compute)),
               dense_rows(key.detach()),
               dense_rows(value.detach()),
               options,
               dense_masks(options),
               attention_scale(options, n),
               heads_inside(n.batch, n.heads, n.queries, n.value_dim, compute),
               recording ? Tensor::empty({n.batch, n.heads, n.queries}, compute) : Tensor()};
  call.run(weights);
  Tensor result = query.dtype() == compute ? call.o : call.o.to(query.dtype());
  if (!recording) return result;

  // The closure may not hold its own result, only its numbers.
  call.o = call.o.detach();
  const bool needs_bias = options.mask.defined() && options.mask.requires_grad();
  const bool needs_relative = options.relative_bias.defined() && options.relative_bias.requires_grad();
  record(result, kAttentionName, {query, key, value, options.mask, options.relative_bias},
         [call, needs_bias, needs_relative, compute, q_type = query.dtype(),
          kv_type = key.dtype()](const Tensor& gradient) {
           std::vector<Tensor> g =
               call.gradients(dense_rows(gradient.to(compute)), needs_bias, needs_relative);
           g[0] = g[0].to(q_type);
           g[1] = g[1].to(kv_type);
           g[2] = g[2].to(kv_type);
           return g;
         });
  return result;
}

}  // namespace heed
