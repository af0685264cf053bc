// The forms in which transformers' save_pretrained writes weights: halves and doubles, in shards with an
// index, tied and not. tests/fixtures/loading has a small model of each and the logits that transformers
// computes of it in f32 (transformers 5.12.1, PyTorch 2.14.1, CPU).
#include <gtest/gtest.h>

#include <filesystem>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

class Loading : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Forms, Loading,
                         testing::Values("llama-f16", "qwen2-bf16-tied", "gpt2-sharded", "t5-sharded-f16",
                                         "gpt2-f64"));

TEST_P(Loading, LogitsEqualHuggingFace) {
  const fs::path directory = fs::path(HEED_FIXTURES) / "loading" / GetParam();
  TensorMap inputs = read_tensors(directory / "expected.safetensors");
  const Tensor expected = inputs.extract("logits").mapped();
  const NoGradients guard;
  Context context;
  const Tensor logits = load_model(directory)->forward(inputs, {}, context).at("logits");
  EXPECT_GT(max(abs(reshape(expected, {expected.numel()})), 0).item(), 1);
  EXPECT_LE(relative_error(logits, expected), 1e-5);
}

}  // namespace
}  // namespace heed
