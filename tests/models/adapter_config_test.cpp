// adapter_config.json: every key is used, ignored or refused by name; names and expressions as PEFT matches
// them.
#include "models/adapter_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heed/error.h"
#include "heed/files/file.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The config of a file with these members besides peft_type.
AdapterConfig load_with(const std::string& members) {
  const TemporaryFolder directory;
  spill(directory / kAdapterConfig,
        R"({"peft_type": "LORA", "target_modules": ["q"])" + (members.empty() ? "" : ", " + members) + "}");
  return AdapterConfig::load(directory);
}

std::string error_with(const std::string& members) {
  return error_of([&] { load_with(members); });
}

TEST(AdapterConfig, Targets) {
  const ModuleTest names = targets_test({.names = {"query", "self.value"}}, "x");
  EXPECT_TRUE(names("query"));
  EXPECT_TRUE(names("layer.0.attention.self.query"));
  EXPECT_TRUE(names("layer.0.self.value"));
  EXPECT_FALSE(names("layer.0.myself.value"));
  EXPECT_FALSE(names("layer.0.subquery"));
  const ModuleTest expression = targets_test({.expression = R"(.*\.(q|v))"}, "x");
  EXPECT_TRUE(expression("layer.0.q"));
  EXPECT_FALSE(expression("layer.0.qx"));
  EXPECT_FALSE(expression("q"));
  EXPECT_TRUE(targets_test({.expression = "a|ab"}, "x")("ab"));
}

TEST(AdapterConfig, ModulesToSave) {
  EXPECT_TRUE(is_within_any("classifier", {"classifier"}));
  EXPECT_TRUE(is_within_any("classifier.dense", {"x", "classifier"}));
  EXPECT_TRUE(is_within_any("bert.pooler.dense", {"pooler"}));
  EXPECT_FALSE(is_within_any("bert.poolers.dense", {"pooler"}));
  EXPECT_EQ(outermost_module("bert.pooler.dense", {"dense", "pooler"}), "bert.pooler");
  EXPECT_EQ(outermost_module("model.norm", {"norm"}), "model.norm");
  EXPECT_EQ(outermost_module("model.layers.0.input_layernorm", {"norm", "layernorm"}), "");
  EXPECT_EQ(outermost_module("model.layers.0.mlp.down_proj", {"layers.0"}), "model.layers.0");
}

TEST(AdapterConfig, RanksAndScales) {
  const AdapterConfig config = load_with(
      R"("r": 4, "lora_alpha": 8, "rank_pattern": {"mlp.c": 2, ".*x": 16}, "alpha_pattern": {"mlp.c": 5})");
  EXPECT_EQ(config.rank("h.0.c"), 4);
  EXPECT_EQ(config.rank("h.0.mlp.c"), 2);
  EXPECT_EQ(config.rank("h.0.x"), 16);
  EXPECT_EQ(config.scale("h.0.c"), 2);
  EXPECT_EQ(config.scale("h.0.mlp.c"), 2.5);
  EXPECT_EQ(config.scale("h.0.x"), 0.5);
  EXPECT_EQ(load_with(R"("r": 4, "lora_alpha": 8, "use_rslora": true)").scale("h"), 4);
  EXPECT_EQ(load_with(R"("r": 16, "lora_alpha": 1.5)").scale("h"), 1.5 / 16);
}

TEST(AdapterConfig, SettingsThatAreNotSupported) {
  for (const char* key : {"use_dora", "lora_bias", "use_qalora", "use_bdlora"})
    EXPECT_THAT(error_with("\"" + std::string(key) + "\": true"), HasSubstr(key));
  EXPECT_THAT(error_with(R"("layer_replication": [[0, 2]])"), HasSubstr("layer_replication"));
  EXPECT_THAT(error_with(R"("target_parameters": ["w"])"), HasSubstr("target_parameters"));
  EXPECT_THAT(error_with(R"("bias": "all")"), HasSubstr("bias: expected \"none\""));
  EXPECT_THAT(error_with(R"("init_lora_weights": "pissa_niter_16")"), HasSubstr("changes the base"));
  EXPECT_THAT(error_with(R"("r": 0)"), HasSubstr("r: expected an integer of at least 1"));
  EXPECT_THAT(error_with(R"("rank_pattern": {"q": 0.5})"), HasSubstr("rank_pattern"));
  EXPECT_THAT(error_with(R"("lora_dropout": 1.0)"), HasSubstr("lora_dropout"));
  EXPECT_THAT(error_with(R"("later_setting": 3)"), HasSubstr("later_setting"));
  EXPECT_THAT(error_with(R"("alpha_pattern": {"(": 3})"), HasSubstr("a regular expression"));
  EXPECT_EQ(error_with(R"("later_setting": null, "other": false, "third": {}, "init_lora_weights": "eva")"),
            "no error");
  EXPECT_THAT(error_with(R"("peft_type": "IA3")"), HasSubstr("peft_type"));
}

}  // namespace
}  // namespace heed
