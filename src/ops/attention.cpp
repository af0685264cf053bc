// Scaled dot-product attention: checks, the fused kernel with its gradient, and the plain formula.
#include "heed/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "heed/autograd.h"
#include "heed/ops/dropout.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "kernels/attention.h"

namespace heed {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, head_dim, value_dim;
};

Sizes sizes_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.size(0) == k.size(0) &&
                    k.size(0) == v.size(0) && k.size(1) == v.size(1) && k.size(2) == v.size(2) &&
                    q.size(3) == k.size(3) && k.size(1) > 0 && q.size(1) % k.size(1) == 0 &&
                    is_floating(q.dtype()) && is_floating(k.dtype()) && k.dtype() == v.dtype() &&
                    (q.dtype() == DType::f64) == (k.dtype() == DType::f64);
  if (!fits) {
    throw Error(std::string(kName) +
                ": expected q [B, H, T, d], k [B, K, S, d] and v [B, K, S, e] of floating types (k and v " +
                "of one, f64 only together) with K dividing H, got " + q.str() + ", " + k.str() + " and " +
                v.str());
  }
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3)};
}

// What is calculated in, and what masks and biases are given in.
DType compute_type(const Tensor& q) { return q.dtype() == DType::f64 ? DType::f64 : DType::f32; }

void check_options(const Sizes& n, DType compute, const AttentionOptions& o) {
  const std::string where = kName, type(name_of(compute));
  if (o.mask.defined()) {
    const Shape full{n.batch, n.heads, n.queries, n.keys};
    if (o.mask.rank() > 4 || broadcast_shapes(kName, o.mask.shape(), full) != full) {
      throw Error(where + ": expected a mask that broadcasts to " + full.str() + ", got " + o.mask.str());
    }
    if (o.mask.dtype() != DType::boolean && o.mask.dtype() != compute) {
      throw Error(where + ": expected a mask of bool or " + type + ", got " + o.mask.str());
    }
  }
  if (o.key_mask.defined() &&
      (o.key_mask.shape() != Shape{n.batch, n.keys} || o.key_mask.dtype() != DType::boolean)) {
    throw Error(where + ": expected a key mask bool" + Shape{n.batch, n.keys}.str() + ", got " +
                o.key_mask.str());
  }
  if (o.alibi_slopes.defined() &&
      (o.alibi_slopes.shape() != Shape{n.heads} || o.alibi_slopes.dtype() != compute)) {
    throw Error(where + ": expected a slope of " + type + " for each of " + std::to_string(n.heads) +
                " heads, got " + o.alibi_slopes.str());
  }
  for (const auto& [name, places] :
       {std::pair{"key lengths", o.key_lengths}, {"query offsets", o.query_offsets}}) {
    if (places.defined() && (places.shape() != Shape{n.batch} || places.dtype() != DType::i64)) {
      throw Error(where + ": expected " + name + " i64" + Shape{n.batch}.str() + ", got " + places.str());
    }
  }
  if (o.query_offsets.defined()) {
    constexpr std::int64_t kFar = std::int64_t{1} << 40;  // keeps sums of positions far from overflow
    for (const std::int64_t place : o.query_offsets.to_vector<std::int64_t>()) {
      if (place < -kFar || place > kFar) {
        throw Error(where + ": expected query offsets of at most 2^40, got " + std::to_string(place));
      }
    }
  }
  const Shape relative{n.heads, std::max<std::int64_t>(n.queries + n.keys - 1, 0)};
  if (o.relative_bias.defined() &&
      (o.relative_bias.shape() != relative || o.relative_bias.dtype() != compute)) {
    throw Error(where + ": expected a relative bias " + type + relative.str() + ", got " +
                o.relative_bias.str());
  }
  if (!(o.dropout >= 0.0 && o.dropout < 1.0)) {
    throw Error(where + ": expected dropout in [0, 1), got " + std::to_string(o.dropout));
  }
  if (o.window < 0) throw Error(where + ": expected a window of at least 0, got " + std::to_string(o.window));
  refuse_gradient("ALiBi slopes", {o.alibi_slopes});
}

double scale_of(const AttentionOptions& options, const Sizes& n) {
  return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(n.head_dim, 1))));
}

// The kernel reads any strides but wants each row of numbers dense.
Tensor dense_rows(const Tensor& x) { return x.strides()[-1] == 1 || x.size(-1) <= 1 ? x : x.contiguous(); }

kernels::AttentionStrides strides_of(const Tensor& x) {
  return {x.strides()[0], x.strides()[1], x.strides()[2]};
}

// [B, H, T, d] laid out in memory as [B, T, H, d], so that joining the heads afterwards costs nothing.
Tensor heads_inside(std::int64_t batch, std::int64_t heads, std::int64_t time, std::int64_t width,
                    DType dtype) {
  return permute(Tensor::empty({batch, time, heads, width}, dtype), {0, 2, 1, 3});
}

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
  Tensor mask, key_mask, lengths, offsets, relative, slopes;
};

Masks dense_masks(const AttentionOptions& options) {
  Masks m;
  if (options.mask.defined()) m.mask = four_axes(options.mask);
  if (options.key_mask.defined()) m.key_mask = options.key_mask.contiguous();
  if (options.key_lengths.defined()) m.lengths = options.key_lengths.contiguous();
  if (options.query_offsets.defined()) m.offsets = options.query_offsets.contiguous();
  if (options.relative_bias.defined()) m.relative = options.relative_bias.detach().contiguous();
  if (options.alibi_slopes.defined()) m.slopes = options.alibi_slopes.contiguous();
  return m;
}

template <class T>
kernels::AttentionOptions<T> kernel_options(const AttentionOptions& options, const Masks& masks,
                                            double scale) {
  kernels::AttentionOptions<T> k;
  k.scale = scale;
  k.causal = options.causal;
  k.window = options.window;
  k.dropout = options.dropout;
  k.random = options.stream;
  if (masks.key_mask.defined()) k.key_mask = masks.key_mask.data<bool>();
  if (masks.lengths.defined()) k.key_lengths = masks.lengths.data<std::int64_t>();
  if (masks.offsets.defined()) k.query_offsets = masks.offsets.data<std::int64_t>();
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

kernels::AttentionShape kernel_shape(const Sizes& n, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o) {
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
    default: throw_unsupported_dtype(kName, dtype, "a floating type");
  }
}

// Which of n heads or queries are wanted: all when none is named.
std::vector<std::int64_t> chosen(const char* what, const std::vector<std::int64_t>& wanted, std::int64_t n) {
  std::vector<std::int64_t> all(wanted);
  for (const std::int64_t i : wanted) {
    if (i < 0 || i >= n) {
      throw Error(std::string(kName) + ": expected " + what + " below " + std::to_string(n) + ", got " +
                  std::to_string(i));
    }
  }
  for (std::int64_t i = 0; wanted.empty() && i < n; ++i) all.push_back(i);
  return all;
}

// The heads and queries of the weights, as the kernel takes them.
struct Wanted {
  std::vector<std::int64_t> heads, queries;
  std::unique_ptr<bool[]> flags;  // by head

  Wanted(const AttentionWeights& weights, const Sizes& n)
      : heads(chosen("heads", weights.heads, n.heads)),
        queries(chosen("queries", weights.queries, n.queries)),
        flags(std::make_unique<bool[]>(static_cast<std::size_t>(n.heads))) {
    if (!std::is_sorted(heads.begin(), heads.end(), std::less_equal<>())) {
      throw Error(std::string(kName) + ": expected the heads of weights in growing order (sort them)");
    }
    for (const std::int64_t h : heads) flags[static_cast<std::size_t>(h)] = true;
  }
};

// One call of the forward kernel: o and, where defined, logsumexp and weights are filled.
struct Forward {
  Sizes n;
  Tensor q, k, v;  // q in the type calculated in
  AttentionOptions options;
  Masks masks;
  double scale;
  Tensor o, logsumexp;

  void run(AttentionWeights* weights) const {
    std::optional<Wanted> wanted;
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
    dispatch_float(kName, type, [&]<class T>() {
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
  const Sizes n = sizes_of(query, key, value);
  const DType compute = compute_type(query);
  check_options(n, compute, options);
  const bool recording = needs_gradient({query, key, value, options.mask, options.relative_bias});
  Forward call{n,
               dense_rows(query.detach().to(compute)),
               dense_rows(key.detach()),
               dense_rows(value.detach()),
               options,
               dense_masks(options),
               scale_of(options, n),
               heads_inside(n.batch, n.heads, n.queries, n.value_dim, compute),
               recording ? Tensor::empty({n.batch, n.heads, n.queries}, compute) : Tensor()};
  call.run(weights);
  Tensor result = query.dtype() == compute ? call.o : call.o.to(query.dtype());
  if (!recording) return result;

  // The closure may not hold its own result, only its numbers.
  call.o = call.o.detach();
  const bool needs_bias = options.mask.defined() && options.mask.requires_grad();
  const bool needs_relative = options.relative_bias.defined() && options.relative_bias.requires_grad();
  record(result, kName, {query, key, value, options.mask, options.relative_bias},
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

namespace {

// The position of each row's first query.
std::vector<std::int64_t> first_positions(const Sizes& n, const AttentionOptions& options) {
  if (options.query_offsets.defined()) return options.query_offsets.to_vector<std::int64_t>();
  return std::vector<std::int64_t>(static_cast<std::size_t>(n.batch), n.keys - n.queries);
}

// relative_bias as [B, H, T, S]: each score's entry looked up.
Tensor spread_relative_bias(const Sizes& n, const AttentionOptions& options) {
  const std::vector<std::int64_t> first = first_positions(n, options);
  const Tensor index = Tensor::empty({n.batch * n.queries * n.keys}, DType::i64);
  std::int64_t* place = index.data<std::int64_t>();
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t t = 0; t < n.queries; ++t) {
      for (std::int64_t s = 0; s < n.keys; ++s) {
        const std::int64_t r = s - t - first[static_cast<std::size_t>(b)];
        *place++ = std::clamp<std::int64_t>(r + n.keys - 1, 0, n.queries + n.keys - 2);
      }
    }
  }
  const Tensor spread = gather(options.relative_bias, 1, index);  // [H, B*T*S]
  return transpose(reshape(spread, {n.heads, n.batch, n.queries, n.keys}), 0, 1);
}

// What the options forbid or add, as one additive tensor [B, H, T, S] (zeros and -inf, and ALiBi).
Tensor additive_mask(const Sizes& n, const AttentionOptions& options, DType dtype) {
  const Shape full{n.batch, n.heads, n.queries, n.keys};
  std::vector<double> slopes(static_cast<std::size_t>(n.heads), 0.0);
  if (options.alibi_slopes.defined()) slopes = options.alibi_slopes.to(DType::f64).to_vector<double>();
  std::vector<bool> seen(static_cast<std::size_t>(full.numel()), true);
  if (options.mask.defined() && options.mask.dtype() == DType::boolean) {
    const auto m = broadcast_to(options.mask, full).to_vector<bool>();
    seen.assign(m.begin(), m.end());
  }
  std::vector<bool> present(static_cast<std::size_t>(n.batch * n.keys), true);
  if (options.key_mask.defined()) present = options.key_mask.to_vector<bool>();
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(n.batch), n.keys);
  if (options.key_lengths.defined()) lengths = options.key_lengths.to_vector<std::int64_t>();
  const std::vector<std::int64_t> first = first_positions(n, options);
  std::vector<double> sum(static_cast<std::size_t>(full.numel()));
  std::size_t i = 0;
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t h = 0; h < n.heads; ++h) {
      for (std::int64_t t = 0; t < n.queries; ++t) {
        for (std::int64_t s = 0; s < n.keys; ++s, ++i) {
          const std::int64_t distance = t + first[static_cast<std::size_t>(b)] - s;
          const bool visible = seen[i] && s < lengths[static_cast<std::size_t>(b)] &&
                               present[static_cast<std::size_t>(b * n.keys + s)] &&
                               (!options.causal || distance >= 0) &&
                               (options.window == 0 || std::abs(distance) < options.window);
          sum[i] = visible ? -slopes[static_cast<std::size_t>(h)] * static_cast<double>(std::abs(distance))
                           : -std::numeric_limits<double>::infinity();
        }
      }
    }
  }
  return Tensor::from(sum, full).to(dtype);
}

// Each key-value head once for every query head that reads it.
Tensor repeat_heads(const Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  const Shape& s = x.shape();
  return reshape(broadcast_to(unsqueeze(x, 2), {s[0], s[1], times, s[2], s[3]}),
                 {s[0], s[1] * times, s[2], s[3]});
}

}  // namespace

Tensor attention_by_formula(const Tensor& query, const Tensor& key, const Tensor& value,
                            const AttentionOptions& options, AttentionWeights* weights) {
  const Sizes n = sizes_of(query, key, value);
  const DType compute = compute_type(query);
  check_options(n, compute, options);
  const Tensor q = query.to(compute), k = key.to(compute), v = value.to(compute);
  const std::int64_t group = n.heads / n.kv_heads;
  Tensor scores =
      matmul(q, transpose(repeat_heads(k, group), -1, -2)) * scale_of(options, n);  // [B, H, T, S]
  scores = scores + additive_mask(n, options, compute);
  if (options.mask.defined() && options.mask.dtype() != DType::boolean) scores = scores + options.mask;
  if (options.relative_bias.defined()) scores = scores + spread_relative_bias(n, options);
  const Tensor probabilities = softmax(scores, -1);  // over the keys
  if (weights != nullptr) {
    const Wanted wanted(*weights, n);
    const auto index = [](const std::vector<std::int64_t>& places) {
      return Tensor::from(places, {static_cast<std::int64_t>(places.size())});
    };
    weights->values = gather(gather(probabilities, 1, index(wanted.heads)), 2, index(wanted.queries));
  }
  const Tensor kept =
      options.dropout > 0 ? dropout(probabilities, options.dropout, options.stream) : probabilities;
  return matmul(kept, repeat_heads(v, group)).to(query.dtype());  // [B, H, T, e]
}

}  // namespace heed
