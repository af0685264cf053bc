// Compares heed forward with the numbers of Hugging Face transformers (tests/fixtures/marian).
#include <gmock/gmock.h>
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

// Reads the f32 tensors of a safetensors file without heed.
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
    if (!(step <= difference)) difference = step;  // also keeps NaN
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
    // The gradient of key biases is zero apart from rounding: a constant added to all scores of a row has no
    // effect on the softmax.
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
  Json config = read_json(folder / "model/config.json");
  config["color"] = 3;
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
  EXPECT_NE(result.err.find("model/config.json: color is not supported and ignored\n"), std::string::npos)
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
  EXPECT_GT(difference, 1e-5);  // the weights have fewer bits than f32
  EXPECT_LT(difference, 0.1);
}

// Reads the whole header of a safetensors file, and an i64 tensor, without heed.
Json header_of(const std::string& file) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return Json::parse(bytes.substr(8, length));
}

Json integers(const std::string& file, const std::string& name) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const Json entry = Json::parse(bytes.substr(8, length)).at(name);
  const std::size_t rows = entry.at("shape")[0], width = entry.at("shape")[1];
  std::vector<std::int64_t> numbers(rows * width);
  std::memcpy(numbers.data(), bytes.data() + 8 + length + entry.at("data_offsets")[0].get<std::size_t>(),
              numbers.size() * sizeof(std::int64_t));
  Json table = Json::array();
  for (std::size_t r = 0; r < rows; ++r)
    table.push_back(
        std::vector<std::int64_t>(numbers.begin() + static_cast<std::ptrdiff_t>(r * width),
                                  numbers.begin() + static_cast<std::ptrdiff_t>((r + 1) * width)));
  return table;
}

// Texts give the same result as their tokens as tensors, and the output names the token of each position.
TEST(Forward, TakesTextsAndNamesTheirPositions) {
  const Folder folder;
  const std::string model = HEED_FIXTURES "/encoders/bert", out = folder / "out.safetensors",
                    in = folder / "in.safetensors", again = folder / "again.safetensors";
  const Words texts{"the cat sat on the mat", "tea"};
  const Result result = run({"forward", "--model", model, "--output", out, "--hidden-states", "--text",
                             texts[0], "--text", texts[1], "--pair", "it is"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json header = header_of(out);
  std::vector<Json> encoded;
  for (const std::string& text : texts)
    encoded.push_back(Json::parse(run({"tokenize", "--model", model, text, "--pair", "it is"}).out));
  const std::size_t longest = encoded[0].at("ids").size(), shorter = encoded[1].at("ids").size();
  ASSERT_GT(longest, shorter);
  Json ids = Json::array(), mask = Json::array();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Json::parse(header.at("__metadata__").at("tokens." + std::to_string(i)).get<std::string>()),
              encoded[i].at("tokens"));
    Json row = encoded[i].at("ids"), ones = std::vector<int>(row.size(), 1);
    while (row.size() < longest) {
      row.push_back(0);
      ones.push_back(0);
    }
    ids.push_back(row);
    mask.push_back(ones);
  }
  EXPECT_EQ(integers(out, "input_ids"), ids);
  EXPECT_EQ(integers(out, "attention_mask"), mask);
  EXPECT_EQ(integers(out, "token_type_ids")[0].back(), 1);
  // forward reads what tokenize writes.
  EXPECT_EQ(output_of({"tokenize", "--model", model, "--output", in, "--pair", "it is", texts[0], texts[1]}),
            "");
  for (const char* name : {"input_ids", "attention_mask", "token_type_ids"})
    EXPECT_EQ(integers(in, name), integers(out, name));
  ASSERT_EQ(run({"forward", "--model", model, "--input", in, "--output", again, "--hidden-states"}).status,
            0);
  const auto one = read_tensors(out), other = read_tensors(again);
  ASSERT_GT(one.size(), 2u);
  for (const auto& [name, tensor] : one) EXPECT_EQ(tensor.values, other.at(name).values) << name;
  // The lines of stdin are texts, too.
  const std::string lines = folder / "lines.safetensors";
  ASSERT_EQ(run({"forward", "--model", model, "--output", lines, "--pair", "it is"},
                texts[0] + "\n" + texts[1] + "\n")
                .status,
            0);
  EXPECT_EQ(integers(lines, "input_ids"), ids);
}

TEST(Forward, TakesTargetsOfEncoderDecoders) {
  const Folder folder;
  const std::string out = folder / "out.safetensors";
  const Words words{"forward", "--model", tiny_model(), "--output", out, "--text", "a b c"};
  const Result none = run(words);
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("--target: missing (the decoder"), std::string::npos) << none.err;
  // Without a file: names and shapes.
  const Words shown{"forward", "--model", tiny_model(), "--text", "a b c", "--target", "c b"};
  EXPECT_THAT(run(shown).out, testing::ContainsRegex("\nf32\\[1, 3, 36\\] +logits\n"));
  Words as_json = shown;
  as_json.push_back("--json");
  EXPECT_THAT(json_lines(run(as_json).out),
              testing::Contains(Json({{"name", "logits"}, {"dtype", "f32"}, {"shape", {1, 3, 36}}})));
  Words with = words;
  with.insert(with.end(), {"--text", "d", "--target", "c b", "--target", "d", "--gradients"});
  const Result result = run(with);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json labels = integers(out, "labels"), inputs = integers(out, "decoder_input_ids");
  const Json said = Json::parse(run({"tokenize", "--model", tiny_model(), "--as-target", "c b"}).out);
  EXPECT_EQ(labels[0], said.at("ids"));
  EXPECT_EQ(labels[1].back(), -100);
  for (std::size_t t = 1; t < labels[0].size(); ++t) EXPECT_EQ(inputs[0][t], labels[0][t - 1]);
  EXPECT_EQ(Json::parse(header_of(out).at("__metadata__").at("target_tokens.0").get<std::string>()),
            said.at("tokens"));
  EXPECT_EQ(read_tensors(out).count("loss"), 1u);
}

TEST(Forward, RefusesTextsItCannotTake) {
  const Folder folder;
  const std::string out = folder / "out.safetensors", model = HEED_FIXTURES "/encoders/bert";
  const auto refused = [&](Words more, int status, const char* told) {
    Words words{"forward", "--output", out};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(told), std::string::npos) << result.err;
    EXPECT_TRUE(listing(folder.path()).empty());
  };
  refused({"--model", model, "--text", "a", "--input", "x.safetensors"}, 2, "got both");
  refused({"--model", model, "--text", "a", "--target", "b"}, 2, "--target: expected an encoder-decoder");
  refused({"--model", model, "--text", "a", "--text", "b", "--text", "c", "--pair", "d", "--pair", "e"}, 2,
          "--pair: expected one for all texts or one for each of 3, got 2");
  refused({"--model", model}, 1, "missing texts");
  refused({"--model", HEED_FIXTURES "/vit", "--text", "a"}, 2,
          "--input: missing (vit takes tensors, not text)");
}

}  // namespace
}  // namespace heed::cli_test
