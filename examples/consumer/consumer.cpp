// Uses the installed library as any program would: attention with known results, its gradient, random numbers
// on the thread pool, and an error. Exits with status 1 if a result is wrong.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "heed/heed.h"

namespace {

bool check(const char* what, bool holds) {
  std::printf("%-28s %s\n", what, holds ? "ok" : "WRONG");
  return holds;
}

bool equals(const heed::Tensor& got, const std::vector<double>& want) {
  const std::vector<float> numbers = got.to_vector<float>();
  if (numbers.size() != want.size()) return false;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!(std::abs(static_cast<double>(numbers[i]) - want[i]) < 6e-4))
      return false;  // three digits are known
  }
  return true;
}

bool attention_is_right() {
  using heed::Tensor;
  Tensor q = Tensor::from(std::vector<float>{1, 0, 0, 1, 1, 1}, {1, 1, 3, 2});
  const Tensor k = Tensor::from(std::vector<float>{1, 1, 0, 1, 1, 0}, {1, 1, 3, 2});
  const Tensor v = Tensor::from(std::vector<float>{1, 0, 0, 1, 0, 0}, {1, 1, 3, 2});
  q.set_requires_grad();
  heed::AttentionWeights weights;
  const Tensor output = heed::scaled_dot_product_attention(q, k, v, {}, &weights);
  bool right = check("attention weights",
                     equals(weights.values, {.401, .198, .401, .401, .401, .198, .503, .248, .248}));
  right &= check("attention output", equals(output, {.401, .198, .401, .401, .503, .248}));
  heed::sum(output).backward();
  double magnitude = 0.0;
  for (const float g : q.grad().to_vector<float>()) magnitude += std::abs(static_cast<double>(g));
  return check("gradient of the queries", std::isfinite(magnitude) && magnitude > 0.01) && right;
}

bool random_numbers_are_uniform() {
  const heed::RandomStream stream = heed::Generator(7).next();
  std::vector<float> values(1000);
  heed::parallel_for(1000, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      values[static_cast<std::size_t>(i)] = stream.uniform(static_cast<std::uint64_t>(i));
    }
  });
  double mean = 0.0;
  for (const float value : values) mean += value / static_cast<double>(values.size());
  return check("random numbers", mean > 0.4 && mean < 0.6);
}

bool wrong_shapes_are_refused() {
  try {
    heed::matmul(heed::Tensor::zeros({2, 3}), heed::Tensor::zeros({2, 3}));
  } catch (const heed::Error& error) {
    std::printf("refused: %s\n", error.what());
    return check("wrong shapes", true);
  }
  return check("wrong shapes", false);
}

}  // namespace

int main() {
  const bool attention = attention_is_right();
  const bool random = random_numbers_are_uniform();
  const bool errors = wrong_shapes_are_refused();
  return attention && random && errors ? 0 : 1;
}
