// Circuits of weights: singular values, copying scores, compositions and directions of heads.
#include "heed/inspect/circuits.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "inspect/matrices.h"  // whose pragmas come first

#include <eigen3/Eigen/Eigenvalues>
#include <eigen3/Eigen/QR>
#include <eigen3/Eigen/SVD>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "inspect/taps.h"

namespace heed {
namespace {

using inspect::LayerWeights;
using inspect::Matrix;

// R of the QR factors of x [D, d]: ||x y|| = ||R y|| for every y.
Matrix triangle(const Matrix& x) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> factors{Eigen::MatrixXd(x)};
  const Eigen::Index rank = std::min(x.rows(), x.cols());
  return Matrix(factors.matrixQR().topRows(rank).triangularView<Eigen::Upper>());
}

// Q of the same factors, [D, min(D, d)].
Eigen::MatrixXd orthogonal(const Matrix& x) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> factors{Eigen::MatrixXd(x)};
  return factors.householderQ() * Eigen::MatrixXd::Identity(x.rows(), std::min(x.rows(), x.cols()));
}

// The factors of a layer's circuits: R of W_Q^T, W_K^T, W_V^T and W_O.
struct LayerFactors {
  std::vector<Matrix> q, k, v, out;
};

LayerFactors factors_of(const LayerWeights& weights) {
  LayerFactors factors;
  const auto add = [](const std::vector<Matrix>& maps, std::vector<Matrix>& to, bool transposed) {
    for (const Matrix& map : maps) to.push_back(triangle(transposed ? Matrix(map.transpose()) : map));
  };
  add(weights.q, factors.q, true);
  add(weights.k, factors.k, true);
  add(weights.v, factors.v, true);
  add(weights.out, factors.out, false);
  return factors;
}

// a b, by the kernels, which are much faster than Eigen's own.
Matrix product_of(const Matrix& a, const Matrix& b) {
  return inspect::matrix_of(matmul(inspect::tensor_of(a), inspect::tensor_of(b)));
}

std::vector<double> singular_values(const Matrix& product) {
  if (!product.allFinite()) return {std::numeric_limits<double>::quiet_NaN()};  // no word of it from Eigen
  const Eigen::BDCSVD<Eigen::MatrixXd> svd{Eigen::MatrixXd(product)};
  return {svd.singularValues().data(), svd.singularValues().data() + svd.singularValues().size()};
}

double norm_of(const std::vector<double>& singular) {
  return std::sqrt(std::inner_product(singular.begin(), singular.end(), singular.begin(), 0.0));
}

// W_E^T W_U [D, D]; empty where one of them, [V, D], is not defined.
Matrix token_products(const Tensor& embedding, const inspect::OutputVectors& output) {
  if (!embedding.defined() || !output.rows.defined() || embedding.size(0) != output.rows.size(0)) return {};
  constexpr std::int64_t kRows = 1024;
  const auto rows_of = [](const Tensor& x, std::int64_t row) {
    return slice(x, 0, row, std::min(row + kRows, x.size(0))).to(DType::f64);
  };
  Matrix sum = Matrix::Zero(embedding.size(1), output.rows.size(1));
  for (std::int64_t row = 0; row < embedding.size(0); row += kRows)
    sum += inspect::matrix_of(matmul(transpose(rows_of(embedding, row), 0, 1), rows_of(output.rows, row)));
  return output.after(std::move(sum));
}

// The eigenvalues of W_U W_O W_V W_E that are not 0 are those of W_V (W_E W_U) W_O.
double copying_score(const Matrix& v, const Matrix& products, const Matrix& out) {
  const Eigen::MatrixXd small = product_of(product_of(v, products), out);
  const Eigen::EigenSolver<Eigen::MatrixXd> solver(small, false);
  const double sum = solver.eigenvalues().cwiseAbs().sum();
  return sum > 0 ? solver.eigenvalues().real().sum() / sum : 0.0;
}

// --- Attention by position alone

Tensor rows_of_ids(const std::vector<std::int64_t>& ids, std::int64_t time) {
  std::vector<std::int64_t> all;
  for (const std::int64_t id : ids) all.insert(all.end(), static_cast<std::size_t>(time), id);
  return Tensor::from(all, {std::ssize(ids), time});
}

// Ends early once `enough` is true.
void run_on(const Model& model, const Tensor& ids, Taps& taps, const std::atomic<bool>& enough) {
  TensorMap inputs{{"input_ids", ids}};
  if (traits_of(model).is(ModelKind::encoder_decoder)) inputs["decoder_input_ids"] = ids;
  Context context{.taps = &taps, .stop = &enough};
  try {
    model.forward(inputs, {.logits = false}, context);
  } catch (const Canceled&) {
    if (!enough) throw;
  }
}

// Layer to weights f64 [H, T, T] where each layer reads, at each position, the mean over tokens of what the
// first layer reads there.
std::map<std::int64_t, Tensor> weights_by_position(const Model& model, const std::string& stack,
                                                   std::int64_t time) {
  constexpr std::int64_t kTokens = 32;
  const std::int64_t count = std::min(kTokens, model.vocab_size());
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(i * model.vocab_size() / count);
  Tensor input;
  std::atomic<bool> embedded = false;
  Taps embeddings;
  embeddings.listen(stack + ".embed", [&](const std::string&, Tensor& value) {
    std::vector<double> sum(static_cast<std::size_t>(value.numel() / value.size(0)));
    const std::vector<double> all = inspect::numbers(value);
    for (std::size_t i = 0; i < all.size(); ++i) sum[i % sum.size()] += all[i] / static_cast<double>(count);
    input = Tensor::from(sum, {1, value.size(1), value.size(2)});
    embedded = true;
  });
  run_on(model, rows_of_ids(ids, time), embeddings, embedded);
  std::map<std::int64_t, Tensor> weights;
  Taps taps;
  taps.listen(stack + ".layers.*.in", [&](const std::string& name, Tensor& value) {
    if (inspect::layer_of_tap(name, stack + ".layers.", ".in")) value = input.to(value.dtype());
  });
  constexpr const char* kWeights = ".self_attn.weights";
  taps.listen(stack + ".layers.*" + kWeights, [&](const std::string& name, Tensor& value) {
    const auto layer = inspect::layer_of_tap(name, stack + ".layers.", kWeights);
    if (layer) weights[*layer] = value.detach().to(DType::f64).contiguous();
  });
  run_on(model, rows_of_ids({ids.front()}, time), taps, false);
  return weights;
}

void add_offset(HeadCircuit& circuit, const double* weights, std::int64_t time) {
  const std::int64_t far = time / 4;
  for (std::int64_t offset = -far; offset <= far; ++offset) {
    double sum = 0;
    for (std::int64_t query = far; query < time - far; ++query) sum += weights[query * time + query - offset];
    const double mean = sum / static_cast<double>(time - 2 * far);
    if (circuit.offset && mean <= circuit.at_offset) continue;
    circuit.offset = offset;
    circuit.at_offset = mean;
  }
}

void add_offsets(const Model& model, const std::string& stack, std::vector<HeadCircuit>& heads) {
  const std::int64_t time = std::min<std::int64_t>(64, model.max_positions().value_or(64));
  if (time < 8 || model.input().kind != InputKind::tokens) return;
  const std::map<std::int64_t, Tensor> weights = weights_by_position(model, stack, time);
  for (HeadCircuit& circuit : heads) {
    const auto layer = weights.find(circuit.head.layer);
    if (layer == weights.end() || layer->second.size(2) != time || layer->second.size(3) != time) continue;
    add_offset(circuit, layer->second.data<double>() + circuit.head.head * time * time, time);
  }
}

// --- Compositions

// A form x^T s x [D, D], never held whole: what a head reads or writes of the stream. The squared norm of a
// product A B is the sum over the elements of A^T A times those of B B^T, which takes far less than A B.
struct StreamForm {
  Tensor x = {}, s = {};      // f64 [d, D], [d, d]
  CompositionKind kind = {};  // of a reader
  HeadIndex head = {};
  double norm = 0;  // of the circuit
};

// By layer.
struct StreamForms {
  std::vector<StreamForm> readers = {}, writers = {};
};

// Those of a head, as far as they are compared: all, or with `of_head` its own, of readers after it and of
// writers before it.
void add_forms(const LayerWeights& weights, const HeadCircuit& circuit,
               const std::optional<HeadIndex>& of_head, StreamForms& forms) {
  const bool own = !of_head || circuit.head == *of_head;
  const auto form = [&](const Matrix& x, const Matrix& other, CompositionKind kind, double norm) {
    const Tensor factor = inspect::tensor_of(other);
    return StreamForm{inspect::tensor_of(x), matmul(factor, transpose(factor, 0, 1)), kind, circuit.head,
                      norm};
  };
  const auto h = static_cast<std::size_t>(circuit.head.head);
  const Matrix &q = weights.q[h], &k = weights.k[weights.key_head(h)], &v = weights.v[weights.key_head(h)],
               out = weights.out[h].transpose();
  const double ov = norm_of(circuit.ov), qk = norm_of(circuit.qk);
  if (own || circuit.head.layer > of_head->layer) {
    forms.readers.push_back(form(q, k, CompositionKind::query, qk));
    forms.readers.push_back(form(k, q, CompositionKind::key, qk));
    forms.readers.push_back(form(v, out, CompositionKind::value, ov));
  }
  if (own || circuit.head.layer < of_head->layer) forms.writers.push_back(form(out, v, {}, ov));
}

// Rows begin to end of each form, [forms, (end - begin) D].
Tensor rows_of(const std::vector<StreamForm>& forms, std::int64_t begin, std::int64_t end) {
  std::vector<Tensor> rows;
  for (const StreamForm& form : forms) {
    const Tensor columns = transpose(slice(form.x, 1, begin, end), 0, 1);
    rows.push_back(reshape(matmul(matmul(columns, form.s), form.x), {-1}));
  }
  return stack(rows, 0);
}

// Readers of one layer, and the writers that they are compared with.
struct Comparison {
  std::int64_t layer = 0;
  std::int64_t reader = 0, readers_end = 0;
  std::int64_t writer = 0, writers_end = 0;
};

std::vector<Comparison> comparisons_of(const StreamForms& forms, const CircuitOptions& options) {
  std::vector<Comparison> all;
  const auto first_writer = [&](std::int64_t layer) {  // of this layer or a later one
    const auto at = std::find_if(forms.writers.begin(), forms.writers.end(),
                                 [&](const StreamForm& one) { return one.head.layer >= layer; });
    return at - forms.writers.begin();
  };
  for (std::int64_t i = 0; i < std::ssize(forms.readers); ++i) {
    const std::int64_t layer = forms.readers[static_cast<std::size_t>(i)].head.layer;
    if (all.empty() || all.back().layer != layer) {
      const bool after = options.of_head && layer > options.of_head->layer;
      all.push_back({layer, i, i, after ? first_writer(options.of_head->layer) : 0, first_writer(layer)});
    }
    all.back().readers_end = i + 1;
  }
  return all;
}

std::vector<Composition> all_compositions(const StreamForms& forms, const CircuitOptions& options) {
  constexpr std::int64_t kNumbers = std::int64_t{1} << 22;  // of all forms at a time
  const std::int64_t width = forms.writers.front().x.size(1),
                     count = std::ssize(forms.readers) + std::ssize(forms.writers),
                     step = std::clamp<std::int64_t>(kNumbers / (count * width), 1, width);
  const std::vector<Comparison> comparisons = comparisons_of(forms, options);
  Matrix squares = Matrix::Zero(std::ssize(forms.readers), std::ssize(forms.writers));
  for (std::int64_t begin = 0; begin < width; begin += step) {
    const std::int64_t end = std::min(begin + step, width);
    const Tensor readers = rows_of(forms.readers, begin, end), writers = rows_of(forms.writers, begin, end);
    for (const Comparison& one : comparisons) {
      if (one.writer == one.writers_end) continue;
      squares.block(one.reader, one.writer, one.readers_end - one.reader, one.writers_end - one.writer) +=
          inspect::matrix_of(matmul(slice(readers, 0, one.reader, one.readers_end),
                                    transpose(slice(writers, 0, one.writer, one.writers_end), 0, 1)));
    }
    if (options.progress) options.progress(end, width, "dims");
  }
  std::vector<Composition> compositions;
  for (const Comparison& one : comparisons) {
    for (std::int64_t i = one.reader; i < one.readers_end; ++i) {
      for (std::int64_t j = one.writer; j < one.writers_end; ++j) {
        const StreamForm &reader = forms.readers[static_cast<std::size_t>(i)],
                         &writer = forms.writers[static_cast<std::size_t>(j)];
        const double norms = reader.norm * writer.norm;
        compositions.push_back({reader.kind, writer.head, reader.head,
                                norms > 0 ? std::sqrt(std::max(0.0, squares(i, j))) / norms : 0.0});
      }
    }
  }
  std::stable_sort(compositions.begin(), compositions.end(),
                   [](const Composition& a, const Composition& b) { return a.score > b.score; });
  return compositions;
}

void check_head(const std::vector<LayerWeights>& layers, HeadIndex head) {
  for (const LayerWeights& layer : layers) {
    if (layer.layer == head.layer && head.head >= 0 && head.head < layer.heads) return;
  }
  throw Error("circuits: expected a head of layers up to " + std::to_string(layers.back().layer) + " with " +
              std::to_string(layers.front().heads) + " heads each, got " + std::to_string(head.layer) + "." +
              std::to_string(head.head));
}

std::vector<TokenScore> top_tokens(const Tensor& rows, const Eigen::VectorXd& direction, double sign,
                                   std::int64_t top) {
  std::vector<float> numbers;
  for (const double number : direction) numbers.push_back(static_cast<float>(sign * number));
  const std::vector<float> scores =
      matmul(rows, Tensor::from(numbers, {std::ssize(numbers), 1})).to_vector<float>();
  std::vector<std::int64_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  const auto more = [&](std::int64_t a, std::int64_t b) {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const std::int64_t count = std::min(top, std::ssize(ids));
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), more);
  std::vector<TokenScore> best;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = ids[static_cast<std::size_t>(i)];
    best.push_back({id, scores[static_cast<std::size_t>(id)]});
  }
  return best;
}

void require_finite(const HeadCircuit& circuit) {
  if (std::isfinite(norm_of(circuit.ov)) && std::isfinite(norm_of(circuit.qk))) return;
  throw Error("circuits: expected finite weights, got others in the attention of layer " +
              std::to_string(circuit.head.layer) + " (heed doctor tells more)");
}

}  // namespace

Circuits weight_circuits(const Model& model, const CircuitOptions& options) {
  const NoGradients guard;
  std::vector<LayerWeights> layers = inspect::attention_weights(model, options.stack);
  if (options.of_head) check_head(layers, *options.of_head);
  Circuits circuits;
  circuits.baseline = 1 / std::sqrt(static_cast<double>(layers.front().out.front().rows()));
  inspect::OutputVectors output = inspect::output_vectors(model, options.stack);
  if (!options.fold_final_norm) output.norm.reset();
  const Matrix products = token_products(model.token_vectors(options.stack), output);
  StreamForms forms;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerWeights layer = std::move(layers[i]);  // freed after it
    const LayerFactors factors = factors_of(layer);
    for (std::int64_t head = 0; head < layer.heads; ++head) {
      const auto h = static_cast<std::size_t>(head);
      const std::size_t g = layer.key_head(h);
      HeadCircuit circuit{.head = {layer.layer, head}, .biased = layer.biased, .rotated = layer.rotated};
      circuit.ov = singular_values(product_of(factors.out[h], factors.v[g].transpose()));
      circuit.qk = singular_values(product_of(factors.q[h], factors.k[g].transpose()));
      require_finite(circuit);
      if (products.size() > 0) circuit.copying = copying_score(layer.v[g], products, layer.out[h]);
      if (options.compositions) add_forms(layer, circuit, options.of_head, forms);
      circuits.heads.push_back(std::move(circuit));
    }
    if (options.progress) options.progress(static_cast<std::int64_t>(i) + 1, std::ssize(layers), "layers");
  }
  add_offsets(model, options.stack, circuits.heads);
  if (options.compositions) circuits.compositions = all_compositions(forms, options);
  return circuits;
}

std::vector<CircuitDirection> circuit_directions(const Model& model, const std::string& stack, HeadIndex head,
                                                 std::int64_t count, std::int64_t top) {
  const NoGradients guard;
  const std::vector<LayerWeights> layers = inspect::attention_weights(model, stack);
  check_head(layers, head);
  const Tensor embedding = model.token_vectors(stack);
  const inspect::OutputVectors output = inspect::output_vectors(model, stack);
  if (!embedding.defined() || !output.rows.defined())
    throw Error("circuits: expected a stack that reads tokens and predicts them, got the " + stack + " of " +
                model.family());
  const LayerWeights& layer = *std::find_if(layers.begin(), layers.end(),
                                            [&](const LayerWeights& one) { return one.layer == head.layer; });
  const auto h = static_cast<std::size_t>(head.head);
  const Matrix value = layer.v[layer.key_head(h)].transpose();
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(
      Eigen::MatrixXd(triangle(layer.out[h]) * triangle(value).transpose()),
      Eigen::ComputeThinU | Eigen::ComputeThinV);
  const Matrix written = output.before(orthogonal(layer.out[h]) * svd.matrixU()),
               read = orthogonal(value) * svd.matrixV();
  std::vector<CircuitDirection> directions;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, svd.singularValues().size()); ++i) {
    const double most = top_tokens(embedding, read.col(i), 1, 1).front().score,
                 least = top_tokens(embedding, read.col(i), -1, 1).front().score;
    const double sign = least > most ? -1 : 1;
    directions.push_back({svd.singularValues()[i], top_tokens(embedding, read.col(i), sign, top),
                          top_tokens(output.rows, written.col(i), sign, top)});
  }
  return directions;
}

}  // namespace heed
