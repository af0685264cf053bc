// Attention by hand: computes softmax(q k^T / sqrt(d)) v with plain loops, first for three tokens with small
// numbers, then for one head of a real model, and compares each result with heed's. docs/tutorial.md explains
// every line of the output.
//   attention_by_hand MODEL        a model with an encoder, such as en-fr
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "heed/heed.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"

namespace {

using Matrix = std::vector<std::vector<double>>;

/// a b^T: every row of a times every row of b.
Matrix times_transposed(const Matrix& a, const Matrix& b) {
  Matrix result(a.size(), std::vector<double>(b.size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j)
      for (std::size_t c = 0; c < a[i].size(); ++c) result[i][j] += a[i][c] * b[j][c];
  return result;
}

Matrix transposed(const Matrix& m) {
  Matrix result(m[0].size(), std::vector<double>(m.size()));
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t j = 0; j < m[i].size(); ++j) result[j][i] = m[i][j];
  return result;
}

Matrix scaled(Matrix m, double factor) {
  for (auto& row : m)
    for (double& x : row) x *= factor;
  return m;
}

/// exp(x) / sum of exp(x), over each row.
Matrix softmax_of_rows(Matrix m) {
  for (auto& row : m) {
    double sum = 0.0;
    for (double& x : row) sum += x = std::exp(x);
    for (double& x : row) x /= sum;
  }
  return m;
}

/// Query t may not attend to the keys after it: their scores become -infinity, their weights 0.
Matrix causal(Matrix scores) {
  for (std::size_t t = 0; t < scores.size(); ++t)
    for (std::size_t s = t + 1; s < scores[t].size(); ++s) scores[t][s] = -INFINITY;
  return scores;
}

Matrix attention_weights(const Matrix& q, const Matrix& k) {
  return softmax_of_rows(scaled(times_transposed(q, k), 1.0 / std::sqrt(static_cast<double>(q[0].size()))));
}

void print(const char* title, const Matrix& m) {
  std::printf("%s\n", title);
  for (const auto& row : m) {
    for (const double x : row) std::printf("  %6.3f", x);
    std::printf("\n");
  }
}

/// Rows of a tensor [1, H, T, d], of one head.
Matrix rows_of(const heed::Tensor& x, std::int64_t head) {
  const heed::Tensor one = heed::slice(x.detach(), 1, head, head + 1).contiguous();
  const std::vector<float> numbers = one.to_vector<float>();
  Matrix result(static_cast<std::size_t>(x.size(2)));
  const auto width = x.size(3);
  for (std::int64_t t = 0; t < x.size(2); ++t)
    result[static_cast<std::size_t>(t)].assign(numbers.begin() + t * width,
                                               numbers.begin() + (t + 1) * width);
  return result;
}

heed::Tensor tensor_of(const Matrix& m) {
  std::vector<float> numbers;
  for (const auto& row : m) numbers.insert(numbers.end(), row.begin(), row.end());
  return heed::Tensor::from(
      numbers, {1, 1, static_cast<std::int64_t>(m.size()), static_cast<std::int64_t>(m[0].size())});
}

const char* equal_to_1e6(const Matrix& a, const Matrix& b) {
  double difference = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j)
      difference = std::max(difference, std::abs(a[i][j] - b[i][j]));
  return difference <= 1e-6 ? "yes" : "NO";
}

void three_tokens() {
  const Matrix q = {{1, 0}, {0, 1}, {1, 1}};
  const Matrix k = {{1, 1}, {0, 1}, {1, 0}};
  const Matrix v = {{1, 0}, {0, 1}, {0, 0}};

  const Matrix scores = times_transposed(q, k);
  print("scores = q k^T", scores);
  const Matrix small = scaled(scores, 1.0 / std::sqrt(2.0));
  print("scaled scores = q k^T / sqrt(2)", small);
  const Matrix weights = softmax_of_rows(small);
  print("weights = softmax of each row", weights);
  const Matrix output = times_transposed(weights, transposed(v));
  print("output = weights v", output);
  heed::AttentionWeights fused;
  const heed::Tensor result =
      heed::scaled_dot_product_attention(tensor_of(q), tensor_of(k), tensor_of(v), {}, &fused);
  std::printf("equal to heed's weights: %s, output: %s\n", equal_to_1e6(weights, rows_of(fused.values, 0)),
              equal_to_1e6(output, rows_of(result, 0)));

  print("\ncausal weights", softmax_of_rows(causal(small)));

  print("\nmistake 1: softmax over the queries, so that columns sum to one",
        transposed(softmax_of_rows(transposed(small))));
}

/// Without the scale, the largest weight grows with d: 256 random queries over 16 random keys.
void missing_scale() {
  std::printf("\nmistake 2: no scale. Largest of 16 weights, mean over 256 random queries\n");
  std::printf("       d   with 1/sqrt(d)   without\n");
  for (const std::size_t d : {4, 64, 1024}) {
    const heed::RandomStream random{1, d};
    Matrix k(16, std::vector<double>(d)), q(256, std::vector<double>(d));
    for (std::size_t i = 0; i < 16 * d; ++i) k[i / d][i % d] = random.normal(i);
    for (std::size_t i = 0; i < 256 * d; ++i) q[i / d][i % d] = random.normal(16 * d + i);
    const auto mean_of_largest = [](const Matrix& weights) {
      double sum = 0.0;
      for (const auto& row : weights) sum += *std::max_element(row.begin(), row.end());
      return sum / static_cast<double>(weights.size());
    };
    std::printf("  %6zu   %14.2f   %7.2f\n", d, mean_of_largest(attention_weights(q, k)),
                mean_of_largest(softmax_of_rows(times_transposed(q, k))));
  }
}

/// Self-attention with q = k = v = x: without positions, reversing the tokens changes no token's output.
void missing_positions() {
  const Matrix dog_bites_man = {{1, 0}, {0, 1}, {1, 1}};
  const Matrix man_bites_dog = {{1, 1}, {0, 1}, {1, 0}};
  const auto middle = [](const char* title, Matrix x, bool positions) {
    for (std::size_t t = 0; positions && t < x.size(); ++t) {
      x[t][0] += std::sin(static_cast<double>(t));
      x[t][1] += std::cos(static_cast<double>(t));
    }
    const Matrix output = times_transposed(attention_weights(x, x), transposed(x));
    std::printf("  %-28s %6.3f  %6.3f\n", title, output[1][0], output[1][1]);
  };
  std::printf("\nmistake 3: no positions. Output at \"bites\"\n");
  middle("dog bites man", dog_bites_man, false);
  middle("man bites dog", man_bites_dog, false);
  middle("dog bites man, positions", dog_bites_man, true);
  middle("man bites dog, positions", man_bites_dog, true);
}

/// The same formula on q, k and v of a real head, compared with the weights that the model computed.
void real_model(const char* name) {
  const std::string directory = heed::model_path(name);
  const auto model = heed::load_as<heed::EncoderDecoderModel>(directory);
  const auto tokenizer = heed::load_tokenizer(directory);
  const heed::Encoding text = tokenizer->encode("The cat sat on the mat.");
  const heed::Shape shape{1, text.size()};
  const heed::TensorMap inputs{
      {"input_ids", heed::Tensor::from(text.ids, shape)},
      {"decoder_input_ids",
       heed::Tensor::from(std::vector<std::int64_t>{model->decoder_start_id()}, {1, 1})}};

  const std::int64_t head = 4;
  heed::TensorMap seen;  // q, k, v [1, 8, 9, 32], weights [1, 8, 9, 9]
  heed::Taps taps;
  for (const char* name : {"q", "k", "v", "weights"})
    taps.listen(std::string("encoder.layers.1.self_attn.") + name,
                [&seen, name](const std::string&, heed::Tensor& value) { seen[name] = value; });
  const heed::NoGradients no_gradients;
  heed::Context context{.taps = &taps};
  model->forward(inputs, {}, context);
  taps.require_all_fired();

  std::printf("\nencoder, layer 1, head %d: q %s, weights %s\n", static_cast<int>(head),
              seen["q"].str().c_str(), seen["weights"].str().c_str());
  const Matrix weights = attention_weights(rows_of(seen["q"], head), rows_of(seen["k"], head));
  for (std::size_t t = 0; t < weights.size(); ++t) {
    const std::string& token = text.tokens[t];
    const int width = token.starts_with("▁") ? 7 : 5;  // printf counts bytes, and ▁ has three
    std::printf("  %-*s", width, token.c_str());
    for (const double x : weights[t]) std::printf(" %5.3f", x);
    std::printf("\n");
  }
  const Matrix output = times_transposed(weights, transposed(rows_of(seen["v"], head)));
  const heed::Tensor fused = heed::scaled_dot_product_attention(seen["q"], seen["k"], seen["v"]);
  std::printf("equal to the model's weights: %s, weights v equal to heed's output: %s\n",
              equal_to_1e6(weights, rows_of(seen["weights"], head)),
              equal_to_1e6(output, rows_of(fused, head)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: attention_by_hand MODEL\n");
    return 2;
  }
  try {
    three_tokens();
    missing_scale();
    missing_positions();
    real_model(argv[1]);
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "attention_by_hand: %s\n", error.what());
    return 1;
  }
}
