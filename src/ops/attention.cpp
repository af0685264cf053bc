// Scaled dot-product attention: the fused kernel with its gradient.
#include "heed/ops/attention.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"
#include "kernels/copy.h"
#include "ops/attention.h"
#include "ops/attention_operands.h"

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

// Calls fn with the type that keys and values are stored in.
template <class Fn>
void dispatch_storage(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f64: return fn.template operator()<double>();
    case DType::f32: return fn.template operator()<float>();
    case DType::bf16: return fn.template operator()<bfloat16>();
    case DType::f16: return fn.template operator()<float16>();
    case DType::u8: return fn.template operator()<std::uint8_t>();
    default: throw_unsupported_dtype(kAttentionName, dtype, "a floating type");
  }
}

// One call of the forward kernel: o and, where defined, logsumexp and weights are filled.
struct Forward {
  AttentionSizes n;
  AttentionOperands operands;  // q in the type calculated in
  AttentionOptions options;
  Masks masks;
  double scale;
  Tensor logsumexp;

  void run(AttentionWeights* weights) const {
    std::optional<WantedWeights> wanted;
    if (weights != nullptr) {
      wanted.emplace(*weights, n);
      const auto rows = static_cast<std::int64_t>(wanted->queries.size());
      weights->values = Tensor::empty(
          {n.batch, static_cast<std::int64_t>(wanted->heads.size()), rows, n.keys}, operands.q.dtype());
    }
    dispatch_storage(operands.k.dtype(), [&]<class S>() {
      using T = kernels::AttentionCompute<S>;
      kernels::AttentionForward<S> args;
      operands.give(args);
      if (logsumexp.defined()) args.logsumexp = logsumexp.data<T>();
      if (wanted) {
        args.weights = weights->values.template data<T>();
        args.weight_heads = wanted->flags.get();
        args.weight_rows = wanted->queries.data();
        args.weight_row_count = static_cast<std::int64_t>(wanted->queries.size());
      }
      kernels::attention(operands.shape(n), kernel_options<T>(options, masks, scale), args);
    });
  }

  // Gradients of q, k, v, the mask and the relative bias, in the type calculated in; those not asked for are
  // undefined.
  std::vector<Tensor> gradients(const Tensor& d_o, bool needs_bias, bool needs_relative) const {
    const DType type = operands.q.dtype();
    AttentionOperands wide = operands;
    wide.k = operands.k.to(type);
    wide.v = operands.v.to(type);
    std::vector<Tensor> gradients = wide.empty_gradients(n);
    const Tensor dbias = needs_bias ? Tensor::empty(masks.mask.shape(), type) : Tensor();
    const Tensor d_relative = needs_relative ? Tensor::empty(masks.relative.shape(), type) : Tensor();
    dispatch_float(kAttentionName, type, [&]<class T>() {
      kernels::AttentionBackward<T> args;
      wide.give(args, d_o, gradients);
      args.logsumexp = logsumexp.data<T>();
      if (needs_bias) args.dbias = dbias.data<T>();
      if (needs_relative) args.d_relative_bias = d_relative.data<T>();
      kernels::attention_backward(wide.shape(n), kernel_options<T>(options, masks, scale), args);
    });
    gradients.push_back(needs_bias ? reshape(dbias, options.mask.shape()) : Tensor());
    gradients.push_back(d_relative);
    return gradients;
  }
};

// The pages of all rows, as the kernel takes them; those that are missing are null.
template <class S>
struct PageTable {
  std::vector<const S*> keys, values;
  std::vector<std::int64_t> capacities;
  std::int64_t row_pages;

  PageTable(std::span<const std::vector<const KeyValuePage*>> rows, std::int64_t length)
      : row_pages((length + kernels::kAttentionPage - 1) / kernels::kAttentionPage) {
    const std::size_t count = rows.size() * static_cast<std::size_t>(row_pages);
    for (auto* numbers : {&keys, &values}) numbers->resize(count);
    capacities.resize(count);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::size_t first = row * static_cast<std::size_t>(row_pages);
      for (std::size_t i = 0; i < std::min(rows[row].size(), static_cast<std::size_t>(row_pages)); ++i) {
        const KeyValuePage& page = *rows[row][i];
        keys[first + i] = reinterpret_cast<const S*>(page.keys.raw_data());
        values[first + i] = reinterpret_cast<const S*>(page.values.raw_data());
        capacities[first + i] = page.capacity();
      }
    }
  }
  void give(kernels::AttentionForward<S>& args) const {
    args.k_pages = {keys.data(), capacities.data(), row_pages};
    args.v_pages = {values.data(), capacities.data(), row_pages};
  }
};

// Positions [first, first + count) of a row of x [R, K, T, d], to those of a page [K, C, d] from `at` on.
void write_page(const Tensor& x, const PageWrite& write, const Tensor& page) {
  kernels::StridedCopy copy;
  copy.rank = 3;
  copy.sizes = {x.size(1), write.count, x.size(3)};
  copy.src_strides = {x.strides()[1], x.strides()[2], x.strides()[3]};
  copy.dst_strides = {page.strides()[0], page.strides()[1], page.strides()[2]};
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  const std::int64_t from = write.row * x.strides()[0] + write.first * x.strides()[2];
  kernels::copy_strided(x.raw_data() + from * size, page.raw_data() + write.at * page.strides()[1] * size,
                        copy, size_of(x.dtype()));
}

}  // namespace

Tensor packed_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        std::span<const std::int64_t> lengths, const AttentionOptions& options) {
  refuse_gradient("attention of packed rows", {q, k, v, options.relative_bias});
  AttentionSizes n = attention_sizes(q, k, v);
  const DType compute = attention_compute_type(q);
  const AttentionOperands operands(n, q.to(compute), k, v);
  std::vector<std::int64_t> starts(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), std::int64_t{0});
  HEED_ASSERT(n.batch == 1 && n.queries == n.keys && starts.back() + lengths.back() == n.keys, "packed rows");
  n.batch = std::ssize(lengths);
  n.queries = n.keys = *std::max_element(lengths.begin(), lengths.end());
  check_attention_options(n, compute, options);
  const Masks masks = dense_masks(options);
  kernels::AttentionShape shape = operands.shape(n);
  for (kernels::AttentionStrides* strides : {&shape.q, &shape.k, &shape.v, &shape.o})
    strides->starts = starts.data();
  dispatch_storage(k.dtype(), [&]<class S>() {
    auto rows = kernel_options<kernels::AttentionCompute<S>>(options, masks, attention_scale(options, n));
    rows.query_lengths = rows.key_lengths = lengths.data();
    kernels::AttentionForward<S> args;
    operands.give(args);
    kernels::attention(shape, rows, args);
  });
  return q.dtype() == compute ? operands.o : operands.o.to(q.dtype());
}

Tensor paged_attention(const Tensor& q, std::span<const std::vector<const KeyValuePage*>> rows,
                       std::int64_t keys, const AttentionOptions& options) {
  HEED_ASSERT(std::ssize(rows) == q.size(0) && keys > 0, "rows with pages");
  refuse_gradient("attention to pages", {q, options.mask, options.relative_bias});
  // Of the shapes of keys and values of all pages together, without their numbers.
  const KeyValuePage& like = *rows.front().front();
  const auto together = [&](const Tensor& page) {
    return page.as_strided({q.size(0), page.size(0), keys, page.size(2)}, {0, 0, 0, 1}, 0);
  };
  const Tensor key = together(like.keys), value = together(like.values);
  const AttentionSizes n = attention_sizes(q, key, value);
  const DType compute = attention_compute_type(q);
  check_attention_options(n, compute, options);
  const AttentionOperands operands(n, q.to(compute), key, value);
  const Masks masks = dense_masks(options);
  kernels::AttentionShape shape = operands.shape(n);
  shape.k.row = key.size(3);
  shape.v.row = value.size(3);
  dispatch_storage(key.dtype(), [&]<class S>() {
    const PageTable<S> table(rows, keys);
    kernels::AttentionForward<S> args;
    operands.give(args);
    table.give(args);
    kernels::attention(
        shape, kernel_options<kernels::AttentionCompute<S>>(options, masks, attention_scale(options, n)),
        args);
  });
  return q.dtype() == compute ? operands.o : operands.o.to(q.dtype());
}

void write_pages(const Tensor& keys, const Tensor& values, std::span<const PageWrite> writes) {
  constexpr std::int64_t kWrites = 16;  // for a thread
  parallel_for(std::ssize(writes), kWrites, [&](std::int64_t begin, std::int64_t end) {
    for (const PageWrite& write :
         writes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))) {
      write_page(keys, write, write.page->keys);
      write_page(values, write, write.page->values);
    }
  });
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value);
  const DType compute = attention_compute_type(query);
  check_attention_options(n, compute, options);
  if (key.dtype() == DType::u8)
    refuse_gradient("attention to int8 rows", {query, options.mask, options.relative_bias});
  const bool recording = needs_gradient({query, key, value, options.mask, options.relative_bias});
  Forward call{n,
               {n, query.detach().to(compute), key, value},
               options,
               dense_masks(options),
               attention_scale(options, n),
               recording ? Tensor::empty({n.batch, n.heads, n.queries}, compute) : Tensor()};
  call.run(weights);
  const Tensor o = call.operands.o;
  Tensor result = query.dtype() == compute ? o : o.to(query.dtype());
  if (!recording) return result;

  // The closure may not hold its own result, only its numbers.
  call.operands.o = o.detach();
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
