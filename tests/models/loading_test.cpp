// The forms in which transformers' save_pretrained writes weights: halves and doubles, in shards with an
// index, tied and not. tests/fixtures/loading has a small model of each and the logits that transformers
// computes of it in f32 (transformers 5.12.1, PyTorch 2.14.1, CPU).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

class Loading : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Forms, Loading,
                         testing::Values("llama-f16", "qwen2-bf16-tied", "gpt2-sharded", "t5-sharded-f16",
                                         "gpt2-f64"));

TEST_P(Loading, LogitsEqualHuggingFace) {
  const fs::path directory = fs::path(HEED_FIXTURES) / "loading" / GetParam();
  const SafetensorsFile file = SafetensorsFile::open(directory / "expected.safetensors");
  TensorMap inputs;
  for (const TensorInfo& info : file.tensors()) {
    if (info.name != "logits") inputs[info.name] = file.get(info.name);
  }
  const NoGradients guard;
  Context context;
  const Tensor logits = load_model(directory)->forward(inputs, {}, context).at("logits");
  const Tensor expected = file.get("logits");
  ASSERT_EQ(logits.shape(), expected.shape());
  const auto got = logits.to_vector<float>(), want = expected.to_vector<float>();
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
  }
  EXPECT_GT(largest, 1);
  EXPECT_LE(difference, 1e-5 * largest);
}

}  // namespace
}  // namespace heed
