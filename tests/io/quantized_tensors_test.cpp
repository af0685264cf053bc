// Quantized weights in Hugging Face's layouts against the numbers of the packages that wrote them
// (tests/fixtures/quantized.py).
#include "io/quantized_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/input_file.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kAll = 15;
const fs::path& quantized_folder() {
  static const fs::path folder = fs::path(HEED_FIXTURES) / "quantized";
  return folder;
}

// A fixture as a model's folder: it is none, so that tests of all models do not find it.
struct Checkpoint {
  TemporaryFolder folder;
  explicit Checkpoint(const fs::path& fixture) {
    fs::copy(fixture / "quantization.json", folder / "config.json");
    fs::copy(fixture / "model.safetensors", folder / "model.safetensors");
  }
};

TEST(QuantizedTensors, NumbersAreThoseOfTheirPackages) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(quantized_folder())) {
    SCOPED_TRACE(entry.path().filename().string());
    ++count;
    const Checkpoint checkpoint(entry.path());
    const TensorFiles files = TensorFiles::open(checkpoint.folder.path());
    EXPECT_THAT(files.names(), ElementsAre("layer.weight"));
    const Tensor tensor = files.get("layer.weight");
    const auto want = SafetensorsFile::open(entry.path() / "numbers.safetensors").get("numbers");
    ASSERT_EQ(tensor.shape(), want.shape());
    const auto got = tensor.to_vector<float>(), numbers = want.to_vector<float>();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_FLOAT_EQ(got[i], numbers[i]) << i;

    const auto matrix = quantized_of(tensor);
    ASSERT_NE(matrix, nullptr);
    const std::int64_t n = matrix->rows(), k = matrix->columns();
    std::vector<float> packed(got.size());
    kernels::dequantize(*matrix->pack(), n, k, packed.data());
    const std::vector<std::int32_t> order = matrix->column_order();
    EXPECT_EQ(order.empty(), entry.path().filename() != "gptq-act-order");
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t l = 0; l < k; ++l) {
        const std::int64_t own = order.empty() ? l : order[static_cast<std::size_t>(l)];
        ASSERT_EQ(packed[static_cast<std::size_t>(i * k + l)], got[static_cast<std::size_t>(i * k + own)]);
      }
    }
  }
  EXPECT_EQ(count, kAll);
}

// A copy of a fixture with another config, or without a tensor, or with another in its place.
struct Changed {
  TemporaryFolder folder;
  explicit Changed(const char* fixture, const std::string& without = {}, const Tensor& instead = {}) {
    const SafetensorsFile file = SafetensorsFile::open(quantized_folder() / fixture / "model.safetensors");
    std::vector<NamedTensor> tensors;
    for (const TensorInfo& info : file.tensors()) {
      if (info.name != without) {
        tensors.push_back({info.name, file.get(info.name)});
      } else if (instead.defined()) {
        tensors.push_back({info.name, instead});
      }
    }
    save_safetensors(folder / "model.safetensors", tensors);
    fs::copy(quantized_folder() / fixture / "quantization.json", folder / "config.json");
  }
  void replace(const std::string& from, const std::string& to) const {
    std::string text = read_regular_file(folder / "config.json", file_limits::kConfig);
    text.replace(text.find(from), from.size(), to);
    fs::remove(folder / "config.json");
    spill(folder / "config.json", text);
  }
  std::string error() const {
    return error_of([&] { TensorFiles::open(folder.path()); });
  }
};

TEST(QuantizedTensors, RefuseWhatDoesNotFit) {
  EXPECT_THAT(Changed("gptq", "layer.qzeros").error(), HasSubstr("\"layer.qzeros\" not found"));
  EXPECT_THAT(Changed("gptq", "layer.scales", Tensor::zeros({4, 7})).error(), HasSubstr("the shape [4, 24]"));
  EXPECT_THAT(Changed("gptq", "layer.scales", Tensor::zeros({3, 24})).error(), HasSubstr("divides 128"));
  EXPECT_THAT(Changed("pack-4-bits", "layer.weight_scale", Tensor::zeros({24, 8})).error(),
              HasSubstr("a multiple of 32 numbers"));
  EXPECT_THAT(Changed("gptq", "layer.qweight", Tensor::zeros({16, 24})).error(),
              HasSubstr("a matrix of I32"));
  EXPECT_THAT(Changed("gptq-act-order", "layer.g_idx", Tensor::zeros({128}, DType::i32)).error(),
              HasSubstr("64 columns in each group"));
  EXPECT_THAT(Changed("pack-4-bits", "layer.weight_shape", Tensor::zeros({2}, DType::i64)).error(),
              HasSubstr("weight_packed"));
  EXPECT_THAT(Changed("nf4", "layer.weight.absmax", Tensor::zeros({3})).error(), HasSubstr("the shape [48]"));
}

TEST(QuantizedTensors, RefuseSettingsByName) {
  const auto with = [](const char* fixture, const char* from, const char* to) {
    const Changed changed(fixture);
    changed.replace(from, to);
    return changed.error();
  };
  EXPECT_THAT(with("gptq", "\"gptq\", \"bits\"", "\"hqq\", \"bits\""),
              HasSubstr("quantization_config.quant_method: expected gptq, awq, compressed-tensors, fp8 or "
                        "bitsandbytes, got \"hqq\""));
  EXPECT_THAT(with("gptq", "\"bits\": 4", "\"bits\": 5"),
              HasSubstr("quantization_config.bits: expected 2, 3, 4 or 8"));
  EXPECT_THAT(with("awq", "\"gemm\"", "\"gemv\""), HasSubstr("quantization_config.version: expected gemm"));
  EXPECT_THAT(with("pack-4-bits", "\"pack-quantized\"", "\"nvfp4-pack-quantized\""),
              HasSubstr("quantization_config.format: expected pack-quantized"));
}

}  // namespace
}  // namespace heed
