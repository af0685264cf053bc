// --adapter, heed convert with adapters and types, and directories of adapters alone
// (tests/fixtures/adapters).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

const std::string kDecoder = std::string(HEED_FIXTURES) + "/decoders/gpt2";
std::string adapter(const std::string& name) { return std::string(HEED_FIXTURES) + "/adapters/" + name; }

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The ids and scores that a model continues a prompt with.
Json continued(const Words& model) {
  return json_lines(
             output_of(
                 plus({"generate", "--prompt-ids", "5,6,7,300", "--max-new-tokens", "12", "--json"}, model)))
      .at(0);
}

Json classified(const Words& model) {
  return json_lines(output_of(plus({"classify", "--json", "--top-k", "4", "some words"}, model))).at(0);
}

void expect_equal(const Json& a, const Json& b) {
  EXPECT_EQ(a.at("ids"), b.at("ids"));
  EXPECT_NEAR(a.at("score").get<double>(), b.at("score").get<double>(), 1e-3);
}

TEST(Adapter, ChangesWhatAModelWritesAndMergesIntoIt) {
  const Folder folder;
  const Words base{"--model", kDecoder}, adapted = plus(base, {"--adapter", adapter("gpt2")});
  const Json own = continued(base), with = continued(adapted);
  EXPECT_NE(own.at("ids"), with.at("ids"));
  EXPECT_EQ(run(plus({"convert", "--output", folder / "merged"}, adapted)).status, 0);
  expect_equal(continued({"--model", folder / "merged"}), with);
  EXPECT_EQ(continued(plus(base, {"--adapter", adapter("gpt2") + "=0"})).at("ids"), own.at("ids"));

  const Words both = plus(adapted, {"--adapter", adapter("gpt2-second") + "=0.5"});
  EXPECT_EQ(run(plus({"convert", "--output", folder / "both", "--dtype", "bf16"}, both)).status, 0);
  EXPECT_NE(continued(both).at("score"), with.at("score"));
  EXPECT_THAT(run({"models", folder / "both"}).out, HasSubstr("BF16"));
}

TEST(Convert, WritesAModelInAnotherType) {
  const Folder folder;
  EXPECT_EQ(run({"convert", "--model", kDecoder, "--dtype", "bf16", "--output", folder / "half"}).status, 0);
  EXPECT_THAT(run({"models", folder / "half"}).out, HasSubstr("BF16"));
  EXPECT_EQ(run({"convert", "--model", kDecoder, "--dtype", "f32", "--output", folder / "same"}).status, 0);
  const Json own = continued({"--model", kDecoder}), half = continued({"--model", folder / "half"});
  EXPECT_EQ(continued({"--model", folder / "same"}), own);
  EXPECT_EQ(half.at("ids"), own.at("ids"));
  EXPECT_NEAR(half.at("score").get<double>(), own.at("score").get<double>(), 1e-2);  // 8 bits a weight
}

TEST(Adapter, BringsItsHead) {
  const Folder folder;
  const Words adapted{"--model", encoder("bert-mlm"), "--adapter", adapter("bert-classify")};
  const Json with = classified(adapted);
  EXPECT_EQ(run(plus({"convert", "--output", folder / "merged"}, adapted)).status, 0);
  const Json merged = classified({"--model", folder / "merged"});
  ASSERT_EQ(with.size(), 4u);
  for (std::size_t i = 0; i < with.size(); ++i) {
    EXPECT_EQ(with[i].at("label"), merged[i].at("label"));
    EXPECT_NEAR(with[i].at("score").get<double>(), merged[i].at("score").get<double>(), 1e-5);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "merged/tokenizer.json"));
}

// A copy of an adapter whose base is this.
std::string with_base(const Folder& folder, const std::string& base) {
  std::filesystem::create_directories(folder / "copy");
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
    spill(folder / (std::string("copy/") + file), slurp(adapter("gpt2") + "/" + file));
  Json config = read_json(folder / "copy/adapter_config.json");
  config["base_model_name_or_path"] = base;
  spill(folder / "copy/adapter_config.json", config.dump());
  return folder / "copy";
}

TEST(Adapter, AloneOpensItsBase) {
  const Folder folder;
  const std::string alone = with_base(folder, kDecoder);
  EXPECT_EQ(continued({"--model", alone}), continued({"--model", kDecoder, "--adapter", alone}));
  const Result info = run({"models", alone});
  EXPECT_THAT(info.out, HasSubstr("base        " + kDecoder));
  EXPECT_THAT(info.out, HasSubstr("base_model.model.transformer.h.0.attn.c_attn.lora_A.weight"));
  EXPECT_EQ(Json::parse(run({"models", alone, "--json"}).out).at("base"), kDecoder);
  with_base(folder, "nobody/nothing");
  expect_error(1, {"generate", "--model", alone, "--prompt-ids", "1", "--json"},
               "is a LoRA adapter of it: give --model BASE --adapter");
}

TEST(Adapter, WrongUse) {
  const Folder folder;
  const Words base{"convert", "--model", kDecoder, "--output", folder / "out"};
  const auto error = [&](int status, const Words& more) {
    const Result result = run(plus(base, more));
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "out/config.json"));
    return result.err;
  };
  EXPECT_THAT(error(2, {"--adapter", adapter("gpt2") + "=half"}), HasSubstr("expected DIR or DIR=WEIGHT"));
  EXPECT_THAT(error(2, {"--adapter", adapter("gpt2"), "--dtype", "f8"}), HasSubstr("--dtype: expected f32"));
  EXPECT_THAT(error(1, {"--adapter", kDecoder}), HasSubstr("without adapter_config.json"));
  EXPECT_THAT(error(1, {"--adapter", adapter("t5")}), HasSubstr("expected a module of the model"));
  EXPECT_THAT(error(1, {"--adapter", adapter("gpt2-second"), "--adapter", "/nowhere"}),
              HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace heed::cli_test
