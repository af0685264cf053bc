// Multi-head attention, self and cross.
#include "heed/nn/attention.h"

#include <algorithm>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/attention_variants.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "nn/attention_common.h"
#include "nn/key_value_state.h"
#include "ops/attention.h"
#include "ops/attention_operands.h"

namespace heed {
namespace {

// [B, T, H, d] -> [B, H, T, d], a view
Tensor heads_first(const Tensor& x, const std::optional<Norm>& norm) {
  return permute(norm ? (*norm)(x) : x, {0, 2, 1, 3});
}

// [B, T, H*d] -> [B, H, T, d], a view
Tensor split_heads(const Tensor& x, std::int64_t heads, const std::optional<Norm>& norm = {}) {
  if (heads > 1 && norm && norm->weight.size(0) == x.size(2)) return split_heads((*norm)(x), heads);
  return heads_first(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), norm);
}

// [B, H, T, d] -> [B, T, H*d]
Tensor join_heads(const Tensor& x) {
  return reshape(permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// All kinds of heads beside each other, in columns of `stride`: [B, T, N, stride].
Tensor project_fused(const FusedQkv& fused, const Tensor& x) {
  Tensor all = fused.projection(x);
  if (fused.clip) all = clamp(all, -*fused.clip, *fused.clip);
  return reshape(all, {x.size(0), x.size(1), all.size(2) / fused.stride, fused.stride});
}

// The heads of one kind, [B, H, T, d], a view.
Tensor heads_of_kind(const FusedQkv& fused, const Tensor& all, std::size_t kind, std::int64_t heads,
                     const std::optional<Norm>& norm) {
  const std::int64_t head = fused.first[kind] / fused.stride, column = fused.first[kind] % fused.stride;
  Tensor part = all.size(2) == heads ? all : slice(all, 2, head, head + heads);
  if (fused.head_dim < fused.stride) part = slice(part, 3, column, column + fused.head_dim);
  return heads_first(part, norm);
}

// With what this attention asks of its softmax.
AttentionOptions softmax_options(const MultiHeadAttention& a, AttentionOptions options, Pass& pass) {
  if (a.scale) options.scale = a.scale;
  if (a.score_cap > 0) options.score_cap = a.score_cap;
  if (a.window > 0) options.window = a.window;
  Context& context = pass.context;
  if (context.training && a.dropout > 0.0) {
    if (context.generator == nullptr)
      throw Error("dropout: no random generator (set Context::generator for training)");
    options.dropout = a.dropout;
    options.stream = context.generator->next();
  }
  return options;
}

// Of the rows of a pass that lie one after another; a bias is that of the longest.
Tensor attend_packed(const MultiHeadAttention& a, const ProjectedHeads& heads, Pass& pass) {
  const std::int64_t longest = *std::max_element(pass.lengths.begin(), pass.lengths.end());
  const auto one = [&](const Tensor& x) { return slice(x, 2, 0, longest); };
  const AttentionOptions& options =
      a.bias != nullptr ? pass.biased(*a.bias, one(heads.queries), one(heads.keys)) : pass.self;
  return project_output(a,
                        packed_attention(heads.queries, heads.keys, heads.values, pass.lengths,
                                         softmax_options(a, options, pass)),
                        pass);
}

}  // namespace

Tensor project_queries(const MultiHeadAttention& a, const Tensor& x) {
  return split_heads(a.q(x), a.heads, a.q_norm);
}

KeysAndValues project_memory(const MultiHeadAttention& a, const Tensor& memory) {
  if (!a.fused) {
    const std::vector<Tensor> all = linear_all(memory, {&a.k, &a.v});
    return {split_heads(all[0], a.kv_heads, a.k_norm), split_heads(all[1], a.kv_heads)};
  }
  const Tensor all = project_fused(*a.fused, memory);
  return {heads_of_kind(*a.fused, all, 1, a.kv_heads, a.k_norm),
          heads_of_kind(*a.fused, all, 2, a.kv_heads, {})};
}

ProjectedHeads project_heads(const MultiHeadAttention& a, const Tensor& x) {
  if (!a.fused) {
    const std::vector<Tensor> all = linear_all(x, {&a.q, &a.k, &a.v});
    return {split_heads(all[0], a.heads, a.q_norm), split_heads(all[1], a.kv_heads, a.k_norm),
            split_heads(all[2], a.kv_heads)};
  }
  const Tensor all = project_fused(*a.fused, x);
  return {heads_of_kind(*a.fused, all, 0, a.heads, a.q_norm),
          heads_of_kind(*a.fused, all, 1, a.kv_heads, a.k_norm),
          heads_of_kind(*a.fused, all, 2, a.kv_heads, {})};
}

FusedQkv qkv_by_kind(Linear projection, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  return {.projection = std::move(projection),
          .head_dim = head_dim,
          .stride = head_dim,
          .first = {0, heads * head_dim, (heads + kv_heads) * head_dim}};
}

FusedQkv kv_by_kind(Linear projection, std::int64_t kv_heads, std::int64_t head_dim) {
  return {.projection = std::move(projection),
          .head_dim = head_dim,
          .stride = head_dim,
          .first = {0, 0, kv_heads * head_dim}};
}

FusedQkv qkv_by_head(Linear projection, std::int64_t head_dim) {
  return {.projection = std::move(projection),
          .head_dim = head_dim,
          .stride = 3 * head_dim,
          .first = {0, head_dim, 2 * head_dim}};
}

TapPart wanted_scores(const MultiHeadAttention& a, const Tensor& queries, const Pass& pass) {
  return pass.context.taps->wanted_part({pass.name + ".scores", pass.name + ".weights"}, a.heads,
                                        queries.size(2));
}

Tensor weigh_values(const MultiHeadAttention& a, const Tensor& weights, const Tensor& values,
                    const TapPart& part, const Tensor& heads) {
  if (part.all()) return weigh_values(a, weights, values);
  refuse_gradient("a replaced part of attention weights", {heads, values, weights});
  const Tensor result = heads.clone(), all = values.to(weights.dtype());
  for (std::int64_t i = 0; i < weights.size(1); ++i) {
    const std::int64_t h = part.heads.empty() ? i : part.heads[static_cast<std::size_t>(i)];
    const std::int64_t kv = h / (a.heads / a.kv_heads);
    const Tensor read = matmul(slice(weights, 1, i, i + 1), slice(all, 1, kv, kv + 1));  // [B, 1, Q, d]
    const Tensor head = slice(result, 1, h, h + 1);
    for (std::int64_t j = 0; j < weights.size(2); ++j) {
      const std::int64_t t = part.queries.empty() ? j : part.queries[static_cast<std::size_t>(j)];
      slice(head, 2, t, t + 1).copy_from(slice(read, 2, j, j + 1));
    }
  }
  return result;
}

Tensor weigh_values(const MultiHeadAttention& a, const Tensor& weights, const Tensor& values) {
  const std::int64_t batch = weights.size(0), queries = weights.size(2), group = a.heads / a.kv_heads;
  const Tensor grouped = reshape(weights, {batch, a.kv_heads, group * queries, weights.size(3)});
  return reshape(matmul(grouped, values.to(weights.dtype())), {batch, a.heads, queries, values.size(3)});
}

Tensor transformed_values(const MultiHeadAttention& a, const Tensor& values) {
  const std::int64_t batch = values.size(0), keys = values.size(2), d = values.size(3);
  const DType dtype = values.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Linear no_bias = a.out;
  no_bias.bias = {};
  std::vector<Tensor> result;
  for (std::int64_t h = 0; h < a.heads; ++h) {
    const std::int64_t kv = h / (a.heads / a.kv_heads);
    std::vector<Tensor> row(static_cast<std::size_t>(a.heads), Tensor::zeros({batch, keys, d}, dtype));
    row[static_cast<std::size_t>(h)] = reshape(slice(values, 1, kv, kv + 1).to(dtype), {batch, keys, d});
    result.push_back(no_bias(concat(row, 2)));
  }
  return heed::stack(result, 1);
}

// The tap `contributions` of the heads and queries that listeners select; what replaces them is added to the
// result.
void offer_contributions(const MultiHeadAttention& a, const Tensor& heads, Pass& pass, Tensor& result) {
  const TapPart part = pass.context.taps->wanted_part({pass.name + ".contributions"}, a.heads, heads.size(2));
  const auto count = static_cast<std::int64_t>(part.queries.size());
  const Tensor read = count == 0 ? heads : gather(heads, 2, Tensor::from(part.queries, {count}));
  Linear no_bias = a.out;
  no_bias.bias = {};
  std::vector<Tensor> each;
  for (std::int64_t i = 0; i < (part.heads.empty() ? a.heads : std::ssize(part.heads)); ++i) {
    const std::int64_t h = part.heads.empty() ? i : part.heads[static_cast<std::size_t>(i)];
    const Tensor one = Tensor::zeros(read.shape(), read.dtype());
    slice(one, 1, h, h + 1).copy_from(slice(read, 1, h, h + 1));
    each.push_back(no_bias(join_heads(one)));
  }
  const Tensor own = heed::stack(each, 1);  // [B, heads, queries, D]
  Tensor offered = own;
  pass.tap("contributions", offered, kQueryAxes, part);
  if (offered.is_same(own)) return;
  const Tensor change = sum(offered - own, 1);
  if (count == 0) {
    result = result + change;
    return;
  }
  result = result.clone();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t t = part.queries[static_cast<std::size_t>(i)];
    const Tensor row = slice(result, 1, t, t + 1);
    row.copy_from(row + slice(change, 1, i, i + 1));
  }
}

Tensor project_output(const MultiHeadAttention& a, Tensor heads, Pass& pass) {
  pass.tap("heads", heads, kQueryAxes);
  Tensor result = a.out(join_heads(heads));
  if (pass.wants("contributions")) offer_contributions(a, heads, pass, result);
  pass.tap("out", result);
  return result;
}

void refuse_documents(const char* kind, const AttentionOptions& options) {
  if (!options.key_starts.defined()) return;
  throw Error(std::string(kind) +
              " attention: expected one document in a row, got several that must not attend to each other "
              "(softmax attention without a sparse pattern keeps them apart)");
}

Tensor MultiHeadAttention::attend(Tensor queries, Tensor keys, Tensor values, AttentionOptions options,
                                  Pass& pass) const {
  if (pass.context.cache_dtype != CacheDType::f32 && (sparse || pass.context.taps != nullptr)) {
    const DType compute = attention_compute_type(queries);
    keys = widened(keys, compute);
    values = widened(values, compute);
  }
  if (sparse) {
    HEED_ASSERT(options.causal, "sparse attention is causal");
    refuse_documents("sparse", options);
    const SparseAttentionOptions some{*sparse, scale, options.key_mask, options.key_lengths,
                                      options.query_offsets};
    return attend_by(
        *this, queries, keys, values, pass,
        [&](AttentionWeights* weights) { return sparse_attention(queries, keys, values, some, weights); },
        [&](AttentionWeights& scores) { sparse_attention_scores(queries, keys, values, some, scores); });
  }
  options = softmax_options(*this, std::move(options), pass);
  return attend_by(
      *this, queries, keys, values, pass,
      [&](AttentionWeights* weights) {
        return scaled_dot_product_attention(queries, keys, values, options, weights);
      },
      [&](AttentionWeights& scores) { attention_scores(queries, keys, values, options, scores); });
}

namespace {

// The queries of the tokens Pass::read, and the keys and values of all.
ProjectedHeads project_heads_of_read(const MultiHeadAttention& a, const Tensor& x, const Pass& pass) {
  if (!a.fused) {
    const auto [keys, values] = project_memory(a, x);
    return {project_queries(a, tokens_at(x, pass.read)), keys, values};
  }
  const Tensor all = project_fused(*a.fused, x);
  return {heads_of_kind(*a.fused, tokens_at(all, pass.read), 0, a.heads, a.q_norm),
          heads_of_kind(*a.fused, all, 1, a.kv_heads, a.k_norm),
          heads_of_kind(*a.fused, all, 2, a.kv_heads, {})};
}

// The cosines and sines of the tokens Pass::read, [B, 1, r].
Tensor rotation_of_read(const Tensor& cos_sin, const Pass& pass) {
  if (cos_sin.rank() == 3) return tokens_at(cos_sin, pass.read);
  return unsqueeze(gather(cos_sin, 0, Tensor::from(pass.read, {std::ssize(pass.read)})), 1);
}

// The same options for the tokens Pass::read as the queries [B, H, 1, d].
AttentionOptions options_of_read(const MultiHeadAttention& a, const Tensor& queries, const Tensor& keys,
                                 const Pass& pass) {
  AttentionOptions options = pass.self;
  std::vector<std::int64_t> positions = pass.read;
  for (std::size_t row = 0; row < positions.size(); ++row)
    positions[row] += pass.past.of(static_cast<std::int64_t>(row));
  options.query_offsets = Tensor::from(positions, {std::ssize(positions)});
  if (a.bias != nullptr) a.bias->add_to(options, queries, keys);
  return options;
}

// The rows of x [1, K, N, d], padded at their ends: [B, K, T, d].
Tensor padded_rows(const Tensor& x, const std::vector<std::int64_t>& lengths) {
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const Tensor rows = Tensor::zeros({std::ssize(lengths), x.size(1), longest, x.size(3)}, x.dtype());
  std::int64_t row = 0, begin = 0;
  for (const std::int64_t length : lengths) {
    slice(slice(rows, 0, row, row + 1), 2, 0, length).copy_from(slice(x, 2, begin, begin + length));
    begin += length;
    ++row;
  }
  return rows;
}

// attend_packed() of one query of each row, [1, H, B, d].
Tensor attend_packed_once(const MultiHeadAttention& a, const ProjectedHeads& heads, Pass& pass) {
  const std::int64_t rows = std::ssize(pass.lengths);
  std::vector<std::int64_t> positions = pass.read;
  std::int64_t begin = 0;
  for (std::size_t row = 0; row < positions.size(); begin += pass.lengths[row++]) positions[row] -= begin;
  AttentionOptions options = pass.self;
  options.query_offsets = Tensor::from(positions, {rows});
  options.key_lengths = Tensor::from(pass.lengths, {rows});
  const Tensor y = a.attend(permute(heads.queries, {2, 1, 0, 3}), padded_rows(heads.keys, pass.lengths),
                            padded_rows(heads.values, pass.lengths), options, pass);  // [B, 1, D]
  return reshape(y, {1, rows, y.size(2)});
}

// `reads`: for the tokens Pass::read alone.
Tensor attend_to_self(const MultiHeadAttention& attention, const Tensor& x, Pass& pass, PartState* state,
                      bool reads) {
  ProjectedHeads heads = reads ? project_heads_of_read(attention, x, pass) : project_heads(attention, x);
  if (const bool given = pass.rotation.defined(); given || attention.rotary != nullptr) {
    Tensor cos_sin =
        given ? pass.rotation : pass.cos_sin(*attention.rotary, heads.keys);  // [T, r] or [B, T, r]
    pass.tap("rotation", cos_sin, {-1, cos_sin.rank() - 2, -1});
    const RotaryLayout layout = given ? RotaryLayout::halves : attention.rotary->layout();
    heads.queries = rotary(heads.queries, reads ? rotation_of_read(cos_sin, pass) : cos_sin, layout);
    heads.keys = rotary(heads.keys, cos_sin, layout);
  }
  if (std::ssize(pass.lengths) > x.size(0))
    return reads ? attend_packed_once(attention, heads, pass) : attend_packed(attention, heads, pass);
  const auto options = [&](const Tensor& keys) {
    if (reads) return options_of_read(attention, heads.queries, keys, pass);
    return attention.bias != nullptr ? pass.biased(*attention.bias, heads.queries, keys) : pass.self;
  };
  if (state == nullptr)
    return attention.attend(heads.queries, heads.keys, heads.values, options(heads.keys), pass);
  auto& past = static_cast<KeyValueState&>(*state);
  past.append(heads.keys, heads.values, pass.past, pass.context.cache_dtype, pass.context.cache_length);
  const std::int64_t length = pass.past.longest + x.size(1);
  if (pass.context.taps != nullptr || attention.sparse) {
    const Tensor keys = past.keys(length);
    return attention.attend(heads.queries, keys, past.values(length), options(keys), pass);
  }
  // A bias reads the shape alone.
  const Tensor like = heads.keys.as_strided({x.size(0), heads.keys.size(1), length, heads.keys.size(3)},
                                            {0, 0, 0, 0}, heads.keys.offset());
  return project_output(
      attention,
      paged_attention(heads.queries, past.pages(), length, softmax_options(attention, options(like), pass)),
      pass);
}

}  // namespace

Tensor SelfAttention::operator()(const Tensor& x, Pass& pass, PartState* state) const {
  return attend_to_self(attention, x, pass, state, false);
}

Tensor SelfAttention::of_read_tokens(const Tensor& x, Pass& pass, PartState* state) const {
  // Masks of single queries, and a table of biases that reaches only keys before the last query.
  const bool packed = std::ssize(pass.lengths) > x.size(0);
  const bool by_query = pass.self.mask.defined() || pass.self.key_starts.defined() || attention.sparse ||
                        (attention.bias != nullptr && (packed || !pass.self.causal));
  if (by_query) return tokens_at((*this)(x, pass, state), pass.read);
  return attend_to_self(attention, x, pass, state, true);
}

std::unique_ptr<PartState> SelfAttention::make_state(const Tensor&) const {
  return std::make_unique<KeyValueState>();
}

Tensor CrossAttention::operator()(const Tensor& x, Pass& pass, PartState* state) const {
  const Tensor queries = project_queries(attention, x);
  if (state != nullptr) {
    auto& memory = static_cast<MemoryState&>(*state);
    memory.store_as(pass.context.cache_dtype);
    return attention.attend(queries, memory.keys(), memory.values(), pass.cross, pass);
  }
  const auto [keys, values] = project_memory(attention, pass.memory);
  return attention.attend(queries, keys, values, pass.cross, pass);
}

std::unique_ptr<PartState> CrossAttention::make_state(const Tensor& memory) const {
  const auto [keys, values] = project_memory(attention, memory);
  return std::make_unique<MemoryState>(keys, values);
}

}  // namespace heed
