// heed quantize: the report, what is written, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

// A shipped classifier, ModernBERT, whose rows have 256 numbers and more.
const Words kQuantize{"quantize", "--model", "reviews"};

Words with_words(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json positive(const std::string& model, const Words& more = {}) {
  const std::string text = "one of the best films of the year, warm and very funny";
  const Words words = {"classify", "--model", model, "--json", "--top-k", "1", text};
  return json_lines(output_of(with_words(words, more))).at(0).at(0);
}

TEST(Quantize, WritesAModelThatClassifiesAlike) {
  const Folder folder;
  const Json own = positive("reviews");
  const Json report =
      json_lines(output_of(with_words(kQuantize, {"--bits", "8", "--output", folder / "small", "--json"})))
          .at(0);
  EXPECT_EQ(report.at("bits"), 8);
  ASSERT_FALSE(report.at("maps").empty());
  for (const Json& map : report.at("maps")) {
    EXPECT_LT(map.at("weight_error").get<double>(), 0.01);
    EXPECT_FALSE(map.contains("output_error"));
  }
  const Json small = positive(folder / "small");
  EXPECT_EQ(small.at("label"), own.at("label"));
  EXPECT_NEAR(small.at("score").get<double>(), own.at("score").get<double>(), 0.01);
  EXPECT_THAT(output_of({"info", "--model", folder / "small"}), HasSubstr("modernbert"));

  const Json rounded = positive(folder / "small", {"--activations", "int8"});
  EXPECT_EQ(rounded.at("label"), own.at("label"));
  EXPECT_NEAR(rounded.at("score").get<double>(), own.at("score").get<double>(), 0.02);
  EXPECT_NE(rounded.at("score"), small.at("score"));
  const Words forward = {"forward", "--text", "a warm film", "--activation-errors", "--model"};
  const std::vector<Json> errors = json_lines(output_of(with_words(forward, {folder / "small", "--json"})));
  EXPECT_EQ(errors.size(), report.at("maps").size());
  for (const Json& map : errors) EXPECT_LT(map.at("output_error").get<double>(), 0.02) << map.at("name");
  EXPECT_THAT(output_of(with_words(forward, {folder / "small"})), HasSubstr("mean of "));
  const std::string told = "expected a model with weights quantized to integers, got none";
  expect_error(1, with_words(forward, {"reviews"}), told);
  expect_error(1, {"classify", "--model", "reviews", "--activations", "int8", "x"}, told);
}

TEST(Quantize, GptqLooksAtATextAndLosesLess) {
  const Folder folder;
  spill(folder / "texts.txt",
        "a dull and lifeless film\nthe acting is superb\nnot worth your time\n"
        "a moving story with a great cast\nthe plot makes no sense at all\n");
  const auto mean_error = [&](const Words& more, const std::string& name) {
    const Words words = with_words(with_words(kQuantize, {"--calibrate", folder / "texts.txt", "--method",
                                                          "gptq", "--json", "--output", folder / name}),
                                   more);
    double sum = 0;
    const Json report = json_lines(output_of(words)).at(0);
    for (const Json& map : report.at("maps")) sum += map.at("output_error").get<double>();
    return sum / static_cast<double>(report.at("maps").size());
  };
  const double coarse = mean_error({"--group", "128"}, "coarse"),
               fine = mean_error({"--group", "32"}, "fine");
  EXPECT_LT(fine, coarse);
  EXPECT_LT(fine, 0.1);
  const std::string table = output_of(with_words(kQuantize, {"--output", folder / "table", "--quiet"}));
  EXPECT_THAT(table, HasSubstr("mean of "));
}

TEST(Quantize, SaysWhatDoesNotFit) {
  const Folder folder;
  const Words to{"--output", folder / "out"};
  expect_error(2, with_words(with_words(kQuantize, to), {"--bits", "3"}), "--bits: expected 4 or 8, got 3");
  expect_error(2, with_words(with_words(kQuantize, to), {"--group", "48"}),
               "--group: expected a multiple of 32, got 48");
  expect_error(2, with_words(with_words(kQuantize, to), {"--method", "awq"}),
               "--method: expected rtn or gptq, got awq");
  expect_error(2, with_words(with_words(kQuantize, to), {"--method", "gptq"}), "--calibrate: missing");
  expect_error(2, with_words(with_words(kQuantize, to), {"--calibrate", "a.txt"}),
               "--calibrate: expected with --method gptq");
  expect_error(
      1, with_words(with_words(kQuantize, to), {"--method", "gptq", "--calibrate", folder / "none.txt"}),
      "none.txt");
  expect_error(1, with_words({"quantize", "--model", "shakespeare"}, to), "stored as [out, in]");
  expect_error(1,
               with_words(with_words({"quantize", "--model", "en-fr"}, to),
                          {"--method", "gptq", "--calibrate", std::string(HEED_FIXTURES) + "/configs.json"}),
               "expected a decoder or an encoder of texts to calibrate, got marian (use --method rtn)");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  std::filesystem::create_directory(folder / "out");
  spill(folder / "out/config.json", "{}");
  expect_error(1, with_words(kQuantize, to), "expected a folder without a model");
}

}  // namespace
}  // namespace heed::cli_test
