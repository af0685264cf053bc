// Scaled dot-product attention on three tokens, small enough to check by hand: prints the attention weights
// of each query and the weighted sums of the values. docs/tutorial.md computes the same numbers step by step.
#include <cstdio>
#include <vector>

#include "heed/ops/attention.h"

void print(const char* name, const heed::Tensor& matrix) {  // [1, 1, rows, columns]
  std::printf("%s\n", name);
  const std::vector<float> numbers = matrix.to_vector<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::printf("  %.3f%s", numbers[i], (i + 1) % static_cast<std::size_t>(matrix.size(-1)) == 0 ? "\n" : "");
  }
}

int main() {
  using heed::Tensor;
  const auto q =
      Tensor::from(std::vector<float>{1, 0, 0, 1, 1, 1}, {1, 1, 3, 2});  // [batch, heads, queries, d]
  const auto k = Tensor::from(std::vector<float>{1, 1, 0, 1, 1, 0}, {1, 1, 3, 2});  // [batch, heads, keys, d]
  const auto v = Tensor::from(std::vector<float>{1, 0, 0, 1, 0, 0}, {1, 1, 3, 2});
  heed::AttentionWeights weights;  // computed only when requested
  const Tensor output = heed::scaled_dot_product_attention(q, k, v, {}, &weights);
  print("weights, softmax(q k^T / sqrt(2))", weights.values);
  print("output, weights v", output);
}
