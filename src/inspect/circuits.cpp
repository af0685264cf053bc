// Circuits of weights: singular values, copying scores, compositions and directions of heads.
#include "heed/inspect/circuits.h"

#include <algorithm>
#include <cmath>
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

std::vector<double> singular_values(const Matrix& product) {
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd{Eigen::MatrixXd(product)};
  return {svd.singularValues().data(), svd.singularValues().data() + svd.singularValues().size()};
}

double norm_of(const std::vector<double>& singular) {
  return std::sqrt(std::inner_product(singular.begin(), singular.end(), singular.begin(), 0.0));
}

// W_E^T W_U [D, D], of rows [V, D] each; empty where one is not defined.
Matrix token_products(const Tensor& embedding, const Tensor& output) {
  if (!embedding.defined() || !output.defined() || embedding.size(0) != output.size(0)) return {};
  constexpr std::int64_t kRows = 4096;
  Matrix sum = Matrix::Zero(embedding.size(1), output.size(1));
  for (std::int64_t row = 0; row < embedding.size(0); row += kRows) {
    const std::int64_t end = std::min(row + kRows, embedding.size(0));
    sum += inspect::matrix_of(slice(embedding, 0, row, end)).transpose() *
           inspect::matrix_of(slice(output, 0, row, end));
  }
  return sum;
}

// The eigenvalues of W_U W_O W_V W_E that are not 0 are those of W_V (W_E W_U) W_O.
double copying_score(const Matrix& v, const Matrix& products, const Matrix& out) {
  const Eigen::MatrixXd small = v * products * out;
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

void run_on(const Model& model, const Tensor& ids, Taps& taps) {
  TensorMap inputs{{"input_ids", ids}};
  if (traits_of(model).is(ModelKind::encoder_decoder)) inputs["decoder_input_ids"] = ids;
  Context context{.taps = &taps};
  model.forward(inputs, {.logits = false}, context);
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
  Taps embeddings;
  embeddings.listen(stack + ".embed", [&](const std::string&, Tensor& value) {
    std::vector<double> sum(static_cast<std::size_t>(value.numel() / value.size(0)));
    const std::vector<double> all = inspect::numbers(value);
    for (std::size_t i = 0; i < all.size(); ++i) sum[i % sum.size()] += all[i] / static_cast<double>(count);
    input = Tensor::from(sum, {1, value.size(1), value.size(2)});
  });
  run_on(model, rows_of_ids(ids, time), embeddings);
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
  run_on(model, rows_of_ids({ids.front()}, time), taps);
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

Tensor tensor_of(const Matrix& x) {
  const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> numbers = x.cast<float>();
  return Tensor::from(std::vector<float>(numbers.data(), numbers.data() + numbers.size()),
                      {x.rows(), x.cols()});
}

// Maps of some heads below each other: what they read of the stream.
struct Readers {
  struct Block {
    CompositionKind kind;
    HeadIndex head;
    std::int64_t rows;
    double norm;  // of the circuit
  };
  std::vector<Block> blocks;
  Tensor maps = {};  // f32 [rows of all blocks, D]
};

// What some heads write: W_O R of W_V, side by side, transposed.
struct Writers {
  struct Block {
    HeadIndex head;
    std::int64_t columns;
    double norm;
  };
  std::vector<Block> blocks;
  Tensor maps = {};  // f32 [D, columns of all blocks]
};

struct LayerCircuits {
  LayerWeights weights;
  LayerFactors factors;
  std::vector<double> ov, qk;  // norms of each head's circuits
};

Matrix stacked(const std::vector<Matrix>& parts) {
  Eigen::Index rows = 0;
  for (const Matrix& part : parts) rows += part.rows();
  Matrix all(rows, parts.front().cols());
  rows = 0;
  for (const Matrix& part : parts) {
    all.middleRows(rows, part.rows()) = part;
    rows += part.rows();
  }
  return all;
}

Readers readers_of(const LayerCircuits& layer, const std::vector<std::size_t>& heads) {
  Readers readers;
  std::vector<Matrix> maps;
  const auto& [weights, factors, ov, qk] = layer;
  for (const std::size_t h : heads) {
    const std::size_t g = weights.key_head(h);
    const HeadIndex head{weights.layer, static_cast<std::int64_t>(h)};
    const auto add = [&](CompositionKind kind, const Matrix& map, double norm) {
      readers.blocks.push_back({kind, head, map.rows(), norm});
      maps.push_back(map);
    };
    add(CompositionKind::query, factors.k[g] * weights.q[h], qk[h]);
    add(CompositionKind::key, factors.q[h] * weights.k[g], qk[h]);
    add(CompositionKind::value, factors.out[h] * weights.v[g], ov[h]);
  }
  readers.maps = tensor_of(stacked(maps));
  return readers;
}

Writers writers_of(const LayerCircuits& layer, const std::vector<std::size_t>& heads) {
  Writers writers;
  std::vector<Matrix> maps;
  const LayerWeights& weights = layer.weights;
  for (const std::size_t h : heads) {
    maps.emplace_back((weights.out[h] * layer.factors.v[weights.key_head(h)].transpose()).transpose());
    writers.blocks.push_back(
        {{weights.layer, static_cast<std::int64_t>(h)}, maps.back().rows(), layer.ov[h]});
  }
  writers.maps = tensor_of(Matrix(stacked(maps).transpose()));
  return writers;
}

void compose(const Readers& readers, const Writers& writers, std::vector<Composition>& compositions) {
  const Tensor products = matmul(readers.maps, writers.maps).contiguous();
  const float* product = products.data<float>();
  const std::int64_t width = products.size(1);
  std::int64_t row = 0;
  for (const Readers::Block& reader : readers.blocks) {
    std::int64_t column = 0;
    for (const Writers::Block& writer : writers.blocks) {
      double sum = 0;
      for (std::int64_t i = row; i < row + reader.rows; ++i) {
        for (std::int64_t j = column; j < column + writer.columns; ++j)
          sum += static_cast<double>(product[i * width + j]) * product[i * width + j];
      }
      column += writer.columns;
      const double norms = reader.norm * writer.norm;
      compositions.push_back(
          {reader.kind, writer.head, reader.head, norms > 0 ? std::sqrt(sum) / norms : 0.0});
    }
    row += reader.rows;
  }
}

std::vector<std::size_t> heads_of(const LayerCircuits& layer) {
  std::vector<std::size_t> heads(static_cast<std::size_t>(layer.weights.heads));
  std::iota(heads.begin(), heads.end(), std::size_t{0});
  return heads;
}

// The heads of a layer that take part: one if that is asked for and in this layer, else all.
std::vector<std::size_t> chosen_heads(const LayerCircuits& layer, const CircuitOptions& options) {
  if (options.of_head && options.of_head->layer == layer.weights.layer)
    return {static_cast<std::size_t>(options.of_head->head)};
  return heads_of(layer);
}

std::vector<Composition> all_compositions(const std::vector<LayerCircuits>& layers,
                                          const CircuitOptions& options) {
  std::vector<Composition> compositions;
  const auto is_of_head = [&](const LayerCircuits& layer) {
    return options.of_head && options.of_head->layer == layer.weights.layer;
  };
  std::vector<Writers> writers;  // of the layers before
  for (std::size_t to = 0; to < layers.size(); ++to) {
    const Readers readers = readers_of(layers[to], chosen_heads(layers[to], options));
    for (std::size_t from = 0; from < to; ++from) {
      if (!options.of_head || is_of_head(layers[from]) || is_of_head(layers[to]))
        compose(readers, writers[from], compositions);
    }
    writers.push_back(writers_of(layers[to], chosen_heads(layers[to], options)));
    if (options.progress) options.progress(static_cast<std::int64_t>(to) + 1, std::ssize(layers));
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

void require_finite(const LayerCircuits& layer) {
  const auto finite = [](double norm) { return std::isfinite(norm); };
  if (std::all_of(layer.ov.begin(), layer.ov.end(), finite) &&
      std::all_of(layer.qk.begin(), layer.qk.end(), finite))
    return;
  throw Error("circuits: expected finite weights, got others in the attention of layer " +
              std::to_string(layer.weights.layer) + " (heed doctor tells more)");
}

}  // namespace

Circuits weight_circuits(const Model& model, const CircuitOptions& options) {
  const NoGradients guard;
  std::vector<LayerWeights> weights = inspect::attention_weights(model, options.stack);
  if (options.of_head) check_head(weights, *options.of_head);
  Circuits circuits;
  circuits.baseline = 1 / std::sqrt(static_cast<double>(weights.front().out.front().rows()));
  const Matrix products =
      token_products(model.token_vectors(options.stack), inspect::output_vectors(model, options.stack));
  std::vector<LayerCircuits> layers;
  for (LayerWeights& one : weights) {
    LayerCircuits layer{std::move(one), {}, {}, {}};
    layer.factors = factors_of(layer.weights);
    for (const std::size_t h : heads_of(layer)) {
      const std::size_t g = layer.weights.key_head(h);
      HeadCircuit circuit{.head = {layer.weights.layer, static_cast<std::int64_t>(h)}};
      circuit.ov = singular_values(layer.factors.out[h] * layer.factors.v[g].transpose());
      circuit.qk = singular_values(layer.factors.q[h] * layer.factors.k[g].transpose());
      layer.ov.push_back(norm_of(circuit.ov));
      layer.qk.push_back(norm_of(circuit.qk));
      circuit.biased = layer.weights.biased;
      circuit.rotated = layer.weights.rotated;
      circuits.heads.push_back(std::move(circuit));
    }
    require_finite(layer);
    layers.push_back(std::move(layer));
  }
  for (HeadCircuit& circuit : circuits.heads) {
    if (products.size() == 0) break;
    const auto layer = std::find_if(layers.begin(), layers.end(), [&](const LayerCircuits& one) {
      return one.weights.layer == circuit.head.layer;
    });
    const auto h = static_cast<std::size_t>(circuit.head.head);
    circuit.copying =
        copying_score(layer->weights.v[layer->weights.key_head(h)], products, layer->weights.out[h]);
  }
  add_offsets(model, options.stack, circuits.heads);
  if (options.compositions) circuits.compositions = all_compositions(layers, options);
  return circuits;
}

std::vector<CircuitDirection> circuit_directions(const Model& model, const std::string& stack, HeadIndex head,
                                                 std::int64_t count, std::int64_t top) {
  const NoGradients guard;
  const std::vector<LayerWeights> layers = inspect::attention_weights(model, stack);
  check_head(layers, head);
  const Tensor embedding = model.token_vectors(stack), output = inspect::output_vectors(model, stack);
  if (!embedding.defined() || !output.defined())
    throw Error("circuits: expected a stack that reads tokens and predicts them, got the " + stack + " of " +
                model.family());
  const LayerWeights& layer = *std::find_if(layers.begin(), layers.end(),
                                            [&](const LayerWeights& one) { return one.layer == head.layer; });
  const auto h = static_cast<std::size_t>(head.head);
  const Matrix value = layer.v[layer.key_head(h)].transpose();
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(
      Eigen::MatrixXd(triangle(layer.out[h]) * triangle(value).transpose()),
      Eigen::ComputeThinU | Eigen::ComputeThinV);
  const Eigen::MatrixXd written = orthogonal(layer.out[h]) * svd.matrixU(),
                        read = orthogonal(value) * svd.matrixV();
  std::vector<CircuitDirection> directions;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, svd.singularValues().size()); ++i) {
    const double most = top_tokens(embedding, read.col(i), 1, 1).front().score,
                 least = top_tokens(embedding, read.col(i), -1, 1).front().score;
    const double sign = least > most ? -1 : 1;
    directions.push_back({svd.singularValues()[i], top_tokens(embedding, read.col(i), sign, top),
                          top_tokens(output, written.col(i), sign, top)});
  }
  return directions;
}

}  // namespace heed
