// What enters the first layer.
#include "models/embeddings.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "image/resample.h"
#include "models/named_tensors.h"
#include "nn/lookups.h"
#include "nn/norm_when_read.h"
#include "ops/computed_rows.h"

namespace heed {
namespace {

// Positions of the tokens that are not padding, after those of earlier passes; -1 for padding.
PositionIds without(const Tensor& ids, std::int64_t padding, const Pass& pass) {
  const std::int64_t batch = ids.size(0), time = ids.size(1);
  const bool packed = std::ssize(pass.lengths) > batch;
  const Tensor dense = ids.contiguous(), from = pass.positions.of_tokens(batch, time),
               positions = Tensor::empty(ids.shape(), DType::i64);
  std::int64_t i = 0;
  for (std::size_t row = 0; i < ids.numel(); ++row) {
    const std::int64_t end = i + (packed ? pass.lengths[row] : time);
    for (std::int64_t next = from.data<std::int64_t>()[i]; i < end; ++i)
      positions.data<std::int64_t>()[i] = dense.data<std::int64_t>()[i] != padding ? next++ : -1;
  }
  return PositionIds(positions);
}

// What listeners hear of the sum of embeddings: the taps `embed.tokens`, `.types` and `.positions`.
class EmbeddingParts {
 public:
  EmbeddingParts(const InputEmbeddings& embeddings, const Pass& pass)
      : embeddings_(embeddings), context_(pass.context), name_(pass.name + ".embed.") {}
  /// `make()` gives what this part adds, [B, T, E].
  template <class Make>
  void add(const char* what, Make make) {
    if (context_.wants(name_ + what)) parts_.emplace_back(name_ + what, make());
  }
  /// Passes each part on, as the norm of the whole and the projection change it.
  void offer(const Tensor& whole) {
    for (auto& [name, part] : parts_) {
      if (embeddings_.norm) part = embeddings_.norm->of_part(part, whole).to(whole.dtype());
      if (embeddings_.projection) {
        Linear no_bias = *embeddings_.projection;
        no_bias.bias = {};
        part = no_bias(part);
      }
      tap(context_, name, part);
    }
  }

 private:
  const InputEmbeddings& embeddings_;
  Context& context_;
  std::string name_;
  std::vector<std::pair<std::string, Tensor>> parts_;
};

// Resizing as two products with constant matrices, one for each axis.

// The weights [out, in] of the positions along an axis. In float, as PyTorch computes them.
Tensor cubic_weights(std::int64_t in, std::int64_t out) {
  constexpr float a = -0.75f;
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const auto near = [](float x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };       // |x| <= 1
  const auto far = [](float x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };  // 1 < |x| < 2
  Tensor weights = Tensor::zeros({out, in});
  for (std::int64_t i = 0; i < out; ++i) {
    const float at = scale * (static_cast<float>(i) + 0.5f) - 0.5f, floor = std::floor(at), t = at - floor;
    const float each[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int k = 0; k < 4; ++k) {
      const auto from = std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) - 1 + k, 0, in - 1);
      weights.data<float>()[i * in + from] += each[k];
    }
  }
  return weights;
}

Tensor smooth_weights(std::int64_t in, std::int64_t out, ResizeFilter filter) {
  const image::FilterWeights<float> taps = image::make_filter_weights<float>(in, out, filter);
  Tensor weights = Tensor::zeros({out, in});
  for (std::int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<std::size_t>(i);
    std::copy_n(taps.weights.begin() + i * taps.most, taps.count[at],
                weights.data<float>() + i * in + taps.first[at]);
  }
  return weights;
}

// The sum of the embeddings, all of which are lookups, computed when it is read; undefined where it has other
// parts, or where a gradient or a listener wants them one by one.
Tensor sum_of_lookups(const InputEmbeddings& e, const ModelInput& given, const PositionIds& positions,
                      const Context& context) {
  const auto is_read = [](const Tensor& table) {
    return table.dtype() == DType::f32 && table.is_contiguous() && !needs_gradient({table});
  };
  const Tensor& ids = given.ids;
  const bool others = e.token_norm || (e.token_types.defined() && !is_read(e.token_types)) ||
                      (e.positions && !is_read(e.positions->table()));
  if (context.taps != nullptr || others || !ids.defined() || ids.numel() < kFewestComputedRows) return {};
  std::optional<TableRows> tokens = rows_when_read(e.tokens, ids);
  if (!tokens) return {};
  std::vector<TableRows> parts{*std::move(tokens)};
  if (e.token_types.defined()) {
    const Tensor types = given.type_ids.defined() ? given.type_ids : Tensor::zeros(ids.shape(), DType::i64);
    parts.push_back(table_rows(e.token_types, nullptr, types));
  }
  if (e.positions) {
    const Tensor rows = e.positions->rows(ids.size(0), ids.size(1), positions);
    parts.push_back(table_rows(e.positions->table(), nullptr, rows));
  }
  return sum_when_read(std::move(parts));
}

}  // namespace

std::function<void(Tensor)> sinusoidal_fill(SinusoidLayout layout) {
  return [layout](const Tensor& table) {
    table.copy_from(sinusoidal_table(table.size(0), table.size(1), layout));
  };
}

Tensor InputEmbeddings::token_mask(const ModelInput& given) const {
  if (!frontend || !given.mask.defined() || !given.values.defined()) return given.mask;
  const bool of_samples = input().kind == InputKind::waveform;
  const Shape rows{given.values.size(0), given.values.size(1)};
  if (given.mask.shape() != rows && (of_samples || input().kind == InputKind::patches)) {
    throw Error(std::string("encode: expected a mask like ") + input().name + " " + given.values.str() +
                ", got " + given.mask.str());
  }
  return frontend->token_mask(given.mask);
}

Tensor InputEmbeddings::token_vectors() const {
  if (frontend || !tokens.table.defined()) return {};
  const NoGradients guard;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens.table.size(0)));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  Tensor rows = tokens(Tensor::from(ids, {1, std::ssize(ids)}));
  rows = reshape(rows, {rows.size(1), rows.size(2)}).to(DType::f32);
  if (token_norm) rows = (*token_norm)(rows);
  if (norm) {
    if (norm->kind == NormKind::layer) rows = rows - mean(rows, 1, true);
    if (norm->weight.defined()) rows = rows * (norm->weight.to(DType::f32) + norm->offset);
  }
  return projection ? projection->weight.linear(rows, {}, Activation::none, projection->layout) : rows;
}

Tensor InputEmbeddings::operator()(const ModelInput& given, const Pass& pass) const {
  const PositionIds& position_ids = pass.positions;
  Context& context = pass.context;
  if (given.values.defined() != (frontend != nullptr)) {
    throw Error(std::string("encode: expected ") + input().name + ", got " +
                (frontend ? "token ids" : "pixels or sound") + " " + given.first().str());
  }
  if (frontend) {
    const Shape row = frontend->input().row;
    if (!has_rows(given.values.shape(), row)) {
      throw Error(std::string("encode: expected ") + input().name + " of rows " + row_text(row) + ", got " +
                  given.values.str());
    }
    return (*frontend)(given, pass.self.key_mask, context);
  }
  const bool skips = positions && unpositioned && given.ids.defined();
  const PositionIds own = skips ? without(given.ids, *unpositioned, pass) : position_ids;
  if (Tensor sum = norm ? sum_of_lookups(*this, given, own, context) : Tensor(); sum.defined()) {
    sum = apply_dropout(norm_when_read(*norm, std::move(sum)), dropout, context);
    return projection ? (*projection)(sum) : sum;
  }
  EmbeddingParts parts(*this, pass);
  const Tensor& ids = given.ids;
  Tensor x = ids.defined() ? tokens(ids) : given.embeddings;  // [B, T, E]
  if (!ids.defined() && given_scale != 1.0) x = x * given_scale;
  tap(context, pass.name + ".embed.lookup", x);
  if (token_norm) x = (*token_norm)(x);
  parts.add("tokens", [&] { return x; });
  if (token_types.defined()) {
    const Tensor types =
        embedding(token_types, given.type_ids.defined() ? given.type_ids : Tensor::zeros({1}, DType::i64));
    parts.add("types", [&] { return types + Tensor::zeros(x.shape(), x.dtype()); });
    x = x + types;
  }
  if (positions) {
    parts.add("positions", [&] { return positions->embed(Tensor::zeros(x.shape(), x.dtype()), own); });
    x = positions->embed(x, own);
  }
  parts.offer(x);
  x = apply_dropout(norm ? (*norm)(x) : x, dropout, context);
  return projection ? (*projection)(x) : x;  // [B, T, D]
}

ModelInput InputEmbeddings::read(const TensorMap& inputs, std::set<std::string> others) const {
  if (!frontend && !inputs.contains("inputs_embeds"))
    return token_inputs(inputs, tokens.table.size(0), others);
  const std::string name = "inputs_embeds";
  if (frontend) return values_input(inputs, input(), std::move(others));
  others.insert({name, "attention_mask"});
  refuse_unknown_inputs(inputs, others);
  ModelInput given{.embeddings = required_input(inputs, name.c_str())};
  const Tensor& e = given.embeddings;
  if (e.rank() != 3 || e.size(0) < 1 || e.size(1) < 1 || e.size(2) != tokens.table.size(1) ||
      !is_floating(e.dtype())) {
    throw Error("forward: inputs_embeds: expected floating numbers [batch, length, " +
                std::to_string(tokens.table.size(1)) + "] of at least one token, got " + e.str());
  }
  const Shape shape{e.size(0), e.size(1)};
  given.mask = optional_ids(inputs, "attention_mask", &shape);
  return given;
}

Tensor resize_positions(const Tensor& positions, const Shape& from, const Shape& to, GridResize how) {
  const std::int64_t d_model = positions.size(1);
  const auto weights = [&](int axis) {
    if (how == GridResize::cubic) return cubic_weights(from[axis], to[axis]);
    const bool cubic = how == GridResize::smooth_cubic;
    return smooth_weights(from[axis], to[axis], cubic ? ResizeFilter::bicubic : ResizeFilter::bilinear);
  };
  const Tensor table = positions.dtype() == DType::f32 ? positions : positions.to(DType::f32);
  const Tensor rows = matmul(weights(0), reshape(table, {from[0], from[1] * d_model}));
  return reshape(matmul(weights(1), reshape(rows, {to[0], from[1], d_model})), {to[0] * to[1], d_model});
}

}  // namespace heed
