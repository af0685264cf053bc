// Takes the matrices of heads out of a model's attentions.
#include "inspect/matrices.h"

#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"

namespace heed::inspect {
namespace {

// [out, in], with the products of adapters.
Matrix matrix_of_map(const Linear& map) {
  Matrix w = matrix_of(map.weight.dequantized());
  if (map.layout == WeightLayout::in_out) w = Matrix(w.transpose());
  for (const LoraAdapter& adapter : map.weight.adapters())
    w += adapter.scale * (matrix_of(adapter.b) * matrix_of(adapter.a));
  return w;
}

Eigen::VectorXd norm_weight(const Norm& norm, Eigen::Index width) {
  if (!norm.weight.defined()) return Eigen::VectorXd::Constant(width, 1.0);
  const std::vector<double> numbers = norm.weight.detach().to(DType::f64).to_vector<double>();
  Eigen::VectorXd weight(width);
  for (Eigen::Index i = 0; i < width; ++i)
    weight[i] = numbers[static_cast<std::size_t>(i) % numbers.size()] + norm.offset;
  return weight;
}

// w diag(weight) C, where C takes the mean of LayerNorm away: of a norm before the map w.
void fold_before(Matrix& w, const Norm& norm) {
  w = Matrix(w * norm_weight(norm, w.cols()).asDiagonal());
  if (norm.kind == NormKind::layer) w.colwise() -= Eigen::VectorXd(w.rowwise().mean());
}

// diag(weight) C w: of a norm after it.
void fold_after(Matrix& w, const Norm& norm) {
  if (norm.kind == NormKind::layer) w.rowwise() -= Eigen::RowVectorXd(w.colwise().mean());
  w = Matrix(norm_weight(norm, w.rows()).asDiagonal() * w);
}

struct Projections {
  Matrix q, k, v;  // [heads * d, D]
  bool biased = false;
};

// The rows of one kind in a fused projection.
Matrix rows_of_kind(const FusedQkv& fused, const Matrix& all, std::size_t kind, std::int64_t heads) {
  Matrix rows(heads * fused.head_dim, all.cols());
  for (std::int64_t h = 0; h < heads; ++h)
    rows.middleRows(h * fused.head_dim, fused.head_dim) =
        all.middleRows(fused.first[kind] + h * fused.stride, fused.head_dim);
  return rows;
}

Projections projections_of(const MultiHeadAttention& a) {
  if (a.fused) {
    const Matrix all = matrix_of_map(a.fused->projection);
    return {rows_of_kind(*a.fused, all, 0, a.heads), rows_of_kind(*a.fused, all, 1, a.kv_heads),
            rows_of_kind(*a.fused, all, 2, a.kv_heads), a.fused->projection.bias.defined()};
  }
  return {matrix_of_map(a.q), matrix_of_map(a.k), matrix_of_map(a.v),
          a.q.bias.defined() || a.k.bias.defined() || a.v.bias.defined()};
}

std::vector<Matrix> rows_by_head(const Matrix& all, std::int64_t heads) {
  const Eigen::Index d = all.rows() / heads;
  std::vector<Matrix> each;
  for (std::int64_t h = 0; h < heads; ++h) each.emplace_back(all.middleRows(h * d, d));
  return each;
}

// The norm of queries or keys: of each head, or of all dims together.
void fold_query_norm(Matrix& w, const std::optional<Norm>& norm, std::int64_t heads) {
  if (!norm) return;
  const Eigen::Index d = w.rows() / heads;
  const bool each = !norm->weight.defined() || norm->weight.numel() == d;
  for (std::int64_t h = 0; each && h < heads; ++h) {
    Matrix one = w.middleRows(h * d, d);
    fold_after(one, *norm);
    w.middleRows(h * d, d) = one;
  }
  if (!each) fold_after(w, *norm);
}

LayerWeights weights_of(const MultiHeadAttention& a, const ResidualStep& step, const Sublayer& sublayer) {
  Projections p = projections_of(a);
  fold_query_norm(p.q, a.q_norm, a.heads);
  fold_query_norm(p.k, a.k_norm, a.kv_heads);
  for (const std::optional<Norm>& norm : {sublayer.norm_before, step.norm_input}) {
    if (!norm) continue;
    for (Matrix* map : {&p.q, &p.k, &p.v}) fold_before(*map, *norm);
    p.biased = p.biased || norm->bias.defined();
  }
  Matrix out = matrix_of_map(a.out);
  if (sublayer.norm_after) fold_after(out, *sublayer.norm_after);
  out *= sublayer.multiplier;
  if (sublayer.scale.defined()) {
    const std::vector<double> scale = sublayer.scale.detach().to(DType::f64).to_vector<double>();
    out = Matrix(Eigen::Map<const Eigen::VectorXd>(scale.data(), std::ssize(scale)).asDiagonal() * out);
  }
  LayerWeights weights{.heads = a.heads,
                       .kv_heads = a.kv_heads,
                       .q = rows_by_head(p.q, a.heads),
                       .k = rows_by_head(p.k, a.kv_heads),
                       .v = rows_by_head(p.v, a.kv_heads),
                       .out = {},
                       .biased = p.biased,
                       .rotated = a.rotary != nullptr};
  const Eigen::Index d = out.cols() / a.heads;
  for (std::int64_t h = 0; h < a.heads; ++h) weights.out.emplace_back(out.middleCols(h * d, d));
  return weights;
}

}  // namespace

std::vector<LayerWeights> attention_weights(const Model& model, const std::string& name) {
  const Stack* stack = model.stack_named(name);
  std::vector<LayerWeights> all;
  for (std::size_t i = 0; stack != nullptr && i < stack->layers.size(); ++i) {
    for (const ResidualStep& step : stack->layers[i].steps) {
      for (const Sublayer& sublayer : step.sublayers) {
        const auto* self = sublayer.part.as<SelfAttention>();
        if (self == nullptr) continue;
        all.push_back(weights_of(self->attention, step, sublayer));
        all.back().layer = static_cast<std::int64_t>(i);
      }
    }
  }
  if (all.empty())
    throw Error("circuits: expected a model with self-attention by softmax of queries and keys, got " +
                model.family());
  return all;
}

Matrix OutputVectors::after(Matrix w) const {
  w *= scale;
  if (norm) fold_before(w, *norm);
  return w;
}

Matrix OutputVectors::before(Matrix w) const {
  w *= scale;
  if (norm) fold_after(w, *norm);
  return w;
}

OutputVectors output_vectors(const Model& model, const std::string& stack) {
  const std::optional<ReadOut> read_out = model.read_out();
  if (!read_out || read_out->transform.dense || stack != "decoder") return {};
  Tensor rows = read_out->output.weight.dequantized();
  if (read_out->output.layout == WeightLayout::in_out) rows = transpose(rows, 0, 1).contiguous();
  return {rows, read_out->scale, read_out->norm};
}

}  // namespace heed::inspect
