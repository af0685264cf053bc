// heed forward against the numbers of Hugging Face transformers (tests/fixtures/marian).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>

#include "command.h"

namespace heed::cli_test {
namespace {

struct Floats {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// The f32 tensors of a safetensors file, read without heed.
std::map<std::string, Floats> read_tensors(const std::string& file) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const Json header = Json::parse(bytes.substr(8, length));
  std::map<std::string, Floats> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || entry.at("dtype") != "F32") continue;
    const std::size_t begin = entry.at("data_offsets")[0], end = entry.at("data_offsets")[1];
    Floats tensor{entry.at("shape"), std::vector<float>((end - begin) / sizeof(float))};
    std::memcpy(tensor.values.data(), bytes.data() + 8 + length + begin, end - begin);
    tensors[name] = std::move(tensor);
  }
  return tensors;
}

double largest_of(const Floats& tensor) {
  double largest = 0;
  for (const float value : tensor.values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

double difference_of(const Floats& actual, const Floats& expected) {
  EXPECT_EQ(actual.shape, expected.shape);
  double difference = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const double step =
        std::abs(static_cast<double>(actual.values.at(i)) - static_cast<double>(expected.values[i]));
    if (!(step <= difference)) difference = step;  // NaN stays
  }
  return difference;
}

Result forward(const std::string& output, const Words& options = {}) {
  Words words{"forward",  "--model", marian(), "--input", marian() + "/inputs.safetensors",
              "--output", output};
  words.insert(words.end(), options.begin(), options.end());
  return run(words);
}

TEST(Forward, OutputsAndGradientsEqualHuggingFace) {
  const Folder folder;
  const Result result =
      forward(folder / "out.safetensors", {"--hidden-states", "--attentions", "--gradients"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "");
  const auto expected = read_tensors(marian() + "/expected.safetensors");
  const auto actual = read_tensors(folder / "out.safetensors");
  ASSERT_GT(expected.size(), 60u);
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(actual.count(name));
    // The gradient of key biases is zero but for rounding: a constant added to all scores of a row changes
    // nothing.
    const bool noise = name.rfind("grad.", 0) == 0 && name.find("k_proj.bias") != std::string::npos;
    const double tolerance = noise ? 1e-6 : (name.rfind("grad.", 0) == 0 ? 1e-3 : 1e-4) * largest_of(tensor);
    EXPECT_LE(difference_of(actual.at(name), tensor), tolerance);
  }
}

TEST(Forward, WritesOnlyWhatIsAskedFor) {
  const Folder folder;
  ASSERT_EQ(forward(folder / "out.safetensors", {"--quiet"}).status, 0);
  for (const auto& entry : read_tensors(folder / "out.safetensors")) {
    EXPECT_EQ(entry.first.find("attentions"), std::string::npos);
    EXPECT_EQ(entry.first.find("grad."), std::string::npos);
  }
  EXPECT_EQ(listing(folder.path()), Words{"out.safetensors"});
}

TEST(Forward, TellsSettingsThatNothingFollows) {
  const Folder folder;
  std::filesystem::copy(marian(), folder / "model");
  Json config = Json::parse(slurp(folder / "model/config.json"));
  config["colour"] = 3;
  spill(folder / "model/config.json", config.dump());
  const Words words{"forward",
                    "--model",
                    folder / "model",
                    "--input",
                    marian() + "/inputs.safetensors",
                    "--output",
                    folder / "out.safetensors"};
  const Result result = run(words);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("model/config.json: colour is not known and not followed\n"), std::string::npos)
      << result.err;
  Words quiet = words;
  quiet.push_back("--quiet");
  EXPECT_EQ(run(quiet).err, "");
}

TEST(Forward, WeightsInBfloat16AreNearby) {
  const Folder folder;
  const Result result = forward(folder / "out.safetensors", {"--dtype", "bf16"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Floats expected = read_tensors(marian() + "/expected.safetensors").at("logits");
  const Floats actual = read_tensors(folder / "out.safetensors").at("logits");
  const double difference = difference_of(actual, expected) / largest_of(expected);
  EXPECT_GT(difference, 1e-5);  // eight bits of the weights are less than f32's
  EXPECT_LT(difference, 0.1);
}

}  // namespace
}  // namespace heed::cli_test
