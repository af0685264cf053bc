// heed convert --bits and to GGUF: the report, what is written, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

// A shipped classifier, ModernBERT, whose rows have 256 numbers and more.
const Words kConvert{"convert", "reviews"}, kQuantize{"convert", "reviews", "--bits", "4"};

Words with_words(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json positive(const std::string& model, const Words& more = {}) {
  const std::string text = "one of the best films of the year, warm and very funny";
  const Words words = {"classify", "--model", model, "--json", "--top-k", "1", text};
  return json_lines(output_of(with_words(words, more))).at(0).at(0);
}

TEST(Convert, MakesAModelOfWhatAKilledOneLeftAndReplacesNone) {
  const Folder folder;
  std::filesystem::create_directory(folder / "half");
  for (const char* name : {"lock", "model.safetensors", "tokenizer.json"})
    spill(folder / ("half/" + std::string(name)), "x");
  const Words half = with_words(kConvert, {"--dtype", "bf16", "--output", folder / "half"});
  output_of(half);
  EXPECT_EQ(positive(folder / "half").at("label"), positive("reviews").at("label"));
  expect_error(1, half, "half: expected a folder without a model, got one (choose another --output)");
  expect_error(1, {"convert", "reviews", "reviews", "--output", folder / "half"},
               "half: expected a folder without a model, got one (choose another --output)");
}

TEST(Convert, WritesAModelThatClassifiesAlike) {
  const Folder folder;
  const Json own = positive("reviews");
  const Json report =
      json_lines(output_of(with_words(kConvert, {"--bits", "8", "--output", folder / "small", "--json"})))
          .at(0);
  EXPECT_EQ(report.at("bits"), 8);
  ASSERT_FALSE(report.at("maps").empty());
  for (const Json& map : report.at("maps")) {
    EXPECT_LT(map.at("weight_error").get<double>(), 0.01);
    EXPECT_FALSE(map.contains("output_error"));
  }
  const Json small = positive(folder / "small", {"--activations", "f32"});
  EXPECT_EQ(small.at("label"), own.at("label"));
  EXPECT_NEAR(small.at("score").get<double>(), own.at("score").get<double>(), 0.01);
  EXPECT_THAT(output_of({"models", folder / "small"}), HasSubstr("modernbert"));
  const Json described = json_lines(output_of({"models", folder / "small", "--json"})).at(0);
  EXPECT_THAT(described.at("activations").get<std::string>(), HasSubstr(" (auto: "));

  const Json rounded = positive(folder / "small", {"--activations", "int8"});
  EXPECT_EQ(rounded.at("label"), own.at("label"));
  EXPECT_NEAR(rounded.at("score").get<double>(), own.at("score").get<double>(), 0.02);
  EXPECT_NE(rounded.at("score"), small.at("score"));
  const bool rounds = described.at("activations").get<std::string>().starts_with("int8");
  EXPECT_EQ(positive(folder / "small").at("score"), (rounds ? rounded : small).at("score"));
  const Words forward = {"forward", "--text", "a warm film", "--activation-errors", "--model"};
  const std::vector<Json> errors = json_lines(output_of(with_words(forward, {folder / "small", "--json"})));
  EXPECT_EQ(errors.size(), report.at("maps").size());
  for (const Json& map : errors) EXPECT_LT(map.at("output_error").get<double>(), 0.02) << map.at("name");
  EXPECT_THAT(output_of(with_words(forward, {folder / "small"})), HasSubstr("mean of "));
  const Words both = with_words(forward, {"reviews"});
  expect_error(2, with_words(both, {"--gradients"}),
               "expected one of --gradients and --activation-errors, got both");
  expect_error(2, with_words(both, {"--taps", "*"}),
               "expected one of --activation-errors and --taps, got both");
  const std::string told = "expected a model with weights quantized to integers, got none";
  expect_error(1, with_words(forward, {"reviews"}), told);
  expect_error(1, {"classify", "--model", "reviews", "--activations", "int8", "x"}, told);
}

TEST(Convert, GptqLooksAtATextAndLosesLess) {
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

TEST(Convert, ReportsInFewLinesAndAllWithVerbose) {
  const Folder folder;
  const Result few = run(with_words(kQuantize, {"--output", folder / "few"}));
  EXPECT_THAT(few.err, testing::ContainsRegex("wrote .*few: [0-9.]+ MB of weights, from [0-9.]+ MB, in "));
  ASSERT_EQ(lines(few.out).size(), 3u) << few.out;
  EXPECT_THAT(lines(few.out).at(1), testing::StartsWith("mean of "));
  const std::string all = output_of(with_words(kQuantize, {"--output", folder / "all", "--verbose"}));
  EXPECT_GT(lines(all).size(), 10u);
  const std::string largest = lines(few.out).at(2), label = "largest: ";
  ASSERT_THAT(largest, testing::StartsWith(label));
  EXPECT_THAT(all, HasSubstr("\n" + largest.substr(label.size()))) << "one of all";
  expect_error(2, with_words(kQuantize, {"--output", folder / "q.safetensors"}),
               "--output: expected the name of a folder, or FILE.gguf, got ");
}

TEST(Convert, ComparesWithTheModelBefore) {
  const Folder folder;
  spill(folder / "texts.txt", "a dull and lifeless film\nthe acting is superb\nnot worth your time\n");
  const Words words = with_words(kConvert, {"--texts", folder / "texts.txt", "--output", folder / "small"});
  const std::string table = output_of(with_words(words, {"--bits", "8"}));
  EXPECT_THAT(table, HasSubstr("vectors of 3 texts: cosine with those before 0.99"));
  EXPECT_THAT(table, HasSubstr("; 100.00% have the same label"));
  const Words again = with_words(kQuantize, {"--texts", folder / "texts.txt", "--output", folder / "again"});
  const Json agreement = json_lines(output_of(with_words(again, {"--json"}))).at(0).at("agreement");
  EXPECT_EQ(agreement.at("texts"), 3);
  EXPECT_GT(agreement.at("mean_cosine").get<double>(), 0.9);
  EXPECT_LE(agreement.at("least_cosine").get<double>(), agreement.at("mean_cosine").get<double>());
  EXPECT_GT(agreement.at("equal_labels").get<double>(), 0.5);
  spill(folder / "none.txt", "");
  expect_error(1, with_words(kQuantize, {"--texts", folder / "none.txt", "--output", folder / "x"}),
               "none.txt: expected texts, one a line, got none");
}

// How vectors are made is in folders beside the model.
TEST(Convert, WritesWhatAGgufFileHasAsADirectory) {
  const Folder folder;
  spill(folder / "texts.txt", "a b c\nd e\n");
  const std::string gguf = std::string(HEED_FIXTURES) + "/gguf/llama.gguf";
  const Json report = json_lines(output_of({"convert", gguf, "--output", folder / "same", "--json", "--texts",
                                            folder / "texts.txt"}))
                          .at(0);
  EXPECT_EQ(report.size(), 1u);
  EXPECT_NEAR(report.at("agreement").at("least_cosine").get<double>(), 1, 1e-6);
  const Words words{"generate", "--prompt", "a b", "--max-new-tokens", "4", "--json", "--model"};
  EXPECT_EQ(output_of(with_words(words, {folder / "same"})), output_of(with_words(words, {gguf})));
}

TEST(Convert, CopiesTheModulesOfSentenceTransformers) {
  const Folder folder;
  std::filesystem::copy(tiny_model(), folder / "model");
  std::filesystem::create_directory(folder / "model/1_Pooling");
  spill(folder / "model/1_Pooling/config.json", "{}");
  spill(folder / "model/modules.json", R"([{"idx": 0, "path": ""}, {"idx": 1, "path": "1_Pooling"}])");
  output_of({"convert", folder / "model", "--dtype", "bf16", "--output", folder / "to"});
  EXPECT_EQ(slurp(folder / "to/1_Pooling/config.json"), "{}");
}

TEST(Convert, GptqOfAnEncoderDecoderReadsPairs) {
  const Folder folder;
  spill(folder / "pairs.tsv",
        "I like tea.\tJ'aime le thé.\nHe sleeps.\tIl dort.\nWho is it?\tQui est-ce ?\n");
  const auto errors = [&](const Words& more, const std::string& name) {
    const Words words{"convert", "en-fr",  "--bits",   "4",          "--group",
                      "32",      "--json", "--output", folder / name};
    return json_lines(output_of(with_words(words, more))).at(0).at("maps");
  };
  const Json maps = errors({"--method", "gptq", "--calibrate", folder / "pairs.tsv"}, "gptq");
  std::size_t decoder = 0;
  for (const Json& map : maps) {
    EXPECT_GT(map.at("output_error").get<double>(), 0) << map.at("name");
    EXPECT_LT(map.at("output_error").get<double>(), map.at("weight_error").get<double>()) << map.at("name");
    decoder += map.at("name").get<std::string>().find("decoder.") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(decoder, maps.size() / 2);
  EXPECT_EQ(output_of({"translate", "--model", folder / "gptq", "He sleeps."}), "Il dort.\n");
}

TEST(Convert, WritesAGgufFile) {
  const Folder folder;
  const std::string from = std::string(HEED_FIXTURES) + "/gguf/phi3-longrope.gguf";
  const Words gguf{"convert", from, "--output", folder / "x.gguf"};
  const Json report = json_lines(output_of(with_words(gguf, {"--json"}))).at(0);
  EXPECT_EQ(report.at("type"), "q4_0");
  EXPECT_FALSE(report.at("maps").empty());
  EXPECT_THAT(output_of({"models", folder / "x.gguf"}), HasSubstr("phi3"));
  EXPECT_THAT(output_of(with_words(gguf, {"--type", "q8_0"})), HasSubstr("mean of "));
  EXPECT_THAT(run({"convert", folder / "x.gguf", "--output", folder / "y.gguf"}).err,
              HasSubstr("its weights are quantized already, and are rounded a second time"));
  expect_error(2, with_words(gguf, {"--type", "q4_k"}),
               "--type: expected f32, f16, bf16, q8_0, q4_0 or q4_1, got q4_k");
  expect_error(2, with_words(gguf, {"--bits", "8"}),
               "--bits: expected with a directory as --output only (a GGUF file has --type)");
  expect_error(2, with_words(kConvert, {"--output", folder / "out", "--type", "q8_0"}),
               "--type: expected with --output FILE.gguf only");
  expect_error(1, with_words(kConvert, {"--output", folder / "z.gguf"}),
               "model_type: expected one of gemma2, gemma3_text, granite, llama");
  EXPECT_FALSE(std::filesystem::exists(folder / "z.gguf"));
}

TEST(Convert, SaysWhatDoesNotFit) {
  const Folder folder;
  const Words to{"--output", folder / "out"};
  expect_error(2, with_words(with_words(kConvert, to), {"--bits", "3"}), "--bits: expected 4 or 8, got 3");
  expect_error(2, with_words(with_words(kQuantize, to), {"--group", "48"}),
               "--group: expected a multiple of 32, got 48");
  expect_error(2, with_words(with_words(kQuantize, to), {"--method", "round"}),
               "--method: expected rtn, gptq or awq, got round");
  expect_error(2, with_words(with_words(kConvert, to), {"--group", "64"}),
               "--group: expected with --bits 4 or 8");
  expect_error(2, with_words(with_words(kQuantize, to), {"shakespeare"}),
               "--bits: expected one model, got several (write their mean first)");
  expect_error(2, with_words(with_words(kQuantize, to), {"--method", "gptq"}), "--calibrate: missing");
  expect_error(2, with_words(with_words(kQuantize, to), {"--calibrate", "a.txt"}),
               "--calibrate: expected with --method gptq or awq");
  expect_error(
      1, with_words(with_words(kQuantize, to), {"--method", "gptq", "--calibrate", folder / "none.txt"}),
      "none.txt");
  expect_error(1, with_words({"convert", "shakespeare", "--bits", "4"}, to), "stored as [out, in]");
  expect_error(1,
               with_words(with_words({"convert", "en-fr", "--bits", "4"}, to),
                          {"--method", "gptq", "--calibrate", std::string(HEED_FIXTURES) + "/configs.json"}),
               "configs.json: line 1: expected a source, a tab and a target, got no tab");
  expect_error(1,
               with_words(with_words(kQuantize, to),
                          {"--method", "awq", "--calibrate", std::string(HEED_FIXTURES) + "/configs.json"}),
               "expected a model in which awq can scale the inputs of maps");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  std::filesystem::create_directory(folder / "out");
  spill(folder / "out/config.json", "{}");
  expect_error(1, with_words(kQuantize, to), "expected a folder without a model");
}

}  // namespace
}  // namespace heed::cli_test
