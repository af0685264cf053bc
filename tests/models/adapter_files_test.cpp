// Adapters that do not fit their model: targets that it does not have, and files of PEFT that are changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops/elementwise.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kModels = HEED_FIXTURES, kAdapterFixtures = kModels / "adapters";

TEST(AdapterFiles, TargetsThatDoNotFit) {
  Generator generator(3);
  const auto gpt2 = load_model(kModels / "decoders/gpt2");
  const auto train = [&](const LoraOptions& options) {
    return error_of([&] { gpt2->train_adapter(options, generator); });
  };
  EXPECT_THAT(train({.targets = {.names = {"c_attn", "c_prj"}}}), HasSubstr("did you mean c_proj?"));
  EXPECT_THAT(train({.targets = {.names = {"ln_1"}}}),
              HasSubstr("expected linear maps and token tables, got transformer.h.0.ln_1"));
  EXPECT_THAT(train({.targets = {.names = {"wpe"}}}), HasSubstr("got transformer.wpe"));
  EXPECT_THAT(train({.targets = {.names = {"lm_head"}}}),
              HasSubstr("shares its weight (transformer.wte.weight)"));
  EXPECT_THAT(train({.targets = {.expression = "c_attn"}}), HasSubstr("which matches none"));
  EXPECT_THAT(train({.targets = {.expression = "(c_attn"}}), HasSubstr("a regular expression"));
  EXPECT_THAT(train({.targets = {.names = {"c_attn"}}, .train = {"clasifier"}}), HasSubstr("lora.train"));
  EXPECT_THAT(train({.rank = 0, .targets = {.names = {"c_attn"}}}), HasSubstr("at least 1"));
  EXPECT_EQ(train({.targets = {.names = {"c_attn"}}, .train = {"ln_f"}}), "no error");
}

// A copy of a fixture whose files are changed.
class Changed {
 public:
  json config;
  TensorMap tensors;

  explicit Changed(const char* fixture)
      : config(read_json(kAdapterFixtures / fixture / "adapter_config.json")),
        tensors(read_tensors(kAdapterFixtures / fixture / kTensors)) {}
  std::string message(const char* base) const {
    write();
    const auto model = load_model(kModels / base);
    return error_of([&] { model->add_adapter(folder_.path()); });
  }
  // Of a model that is loaded with the adapter.
  std::vector<float> logits(const char* base) const {
    write();
    const TensorMap inputs = {{"input_ids", Tensor::from(std::vector<std::int64_t>{5, 6, 7, 8}, {1, 4})}};
    const NoGradients guard;
    return load_model(kModels / base, {}, {{folder_.path()}})
        ->forward(inputs)
        .at("logits")
        .to_vector<float>();
  }

 private:
  void write() const {
    write_file(folder_ / "adapter_config.json", config.dump());
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors) named.push_back({name, tensor});
    save_safetensors(folder_ / kTensors, named);
  }
  static constexpr const char* kTensors = "adapter_model.safetensors";
  TemporaryFolder folder_;
};

TEST(AdapterFiles, FilesThatDoNotFit) {
  const std::string first = "base_model.model.transformer.h.0.attn.c_attn.";
  Changed whole("gpt2-second");
  EXPECT_EQ(whole.message("decoders/gpt2"), "no error");
  EXPECT_THAT(whole.message("t5"), HasSubstr("belongs to tests/fixtures/decoders/gpt2"));
  const auto without = [&](const std::string& name) {
    Changed changed("gpt2-second");
    changed.tensors.erase(name);
    return changed.message("decoders/gpt2");
  };
  EXPECT_THAT(without(first + "lora_B.weight"), HasSubstr("lora_B.weight: not found"));
  const auto with = [&](const std::string& name, const Tensor& tensor) {
    Changed changed("gpt2-second");
    changed.tensors[name] = tensor;
    return changed.message("decoders/gpt2");
  };
  EXPECT_THAT(with(first + "lora_A.weight", Tensor::zeros({2, 47})), HasSubstr("expected [2, 48] for a map"));
  EXPECT_THAT(with(first + "lora_A.weight", Tensor::zeros({3, 48})), HasSubstr("expected [2, 48] for a map"));
  EXPECT_THAT(with(first + "lora_magnitude_vector", Tensor::zeros({48})), HasSubstr("another kind"));
  EXPECT_THAT(with("transformer.h.0.attn.c_attn.lora_A.weight", Tensor::zeros({2, 48})),
              HasSubstr("begins with base_model.model."));
  EXPECT_THAT(with("base_model.model.transformer.h.9.attn.c_attn.lora_A.weight", Tensor::zeros({2, 48})),
              HasSubstr("such as transformer.h."));
  EXPECT_THAT(with("base_model.model.transformer.wte.weight", Tensor::zeros({512, 48})),
              HasSubstr("shares its weight"));
  EXPECT_THAT(with("base_model.model.transformer.ln_f.weight", Tensor::zeros({47})),
              HasSubstr("expected [48]"));
  Changed fewer("gpt2-second");
  for (const char* half : {"lora_A.weight", "lora_B.weight"}) fewer.tensors.erase(first + half);
  EXPECT_THAT(fewer.message("decoders/gpt2"), HasSubstr("not found, though target_modules matches it"));
  Changed saved("gpt2-second");
  saved.config["modules_to_save"] = {"ln_f"};
  EXPECT_THAT(saved.message("decoders/gpt2"), HasSubstr("not found, though modules_to_save names it"));
}

// As in PEFT, the table and the output map that is tied to it are two matrices where an adapter changes one
// of them.
TEST(AdapterFiles, TiedWeightsComeApart) {
  const char* base = "decoders/gpt2";
  const std::string table = "base_model.model.transformer.wte.", output = "base_model.model.lm_head.";
  const NoGradients guard;
  Tensor weight;
  const auto model = load_model(kModels / base);
  for (const Parameter& p : model->parameters()) {
    if (p.name == "transformer.wte.weight") weight = p.tensor.detach();
  }
  ASSERT_TRUE(weight.defined());
  const Changed plain("gpt2-second");
  const std::vector<float> logits = plain.logits(base);
  std::vector<float> doubled = logits;
  for (float& value : doubled) value *= 2;
  const auto saved = [&](const std::vector<std::string>& modules, const TensorMap& tensors,
                         bool ties = false) {
    Changed changed("gpt2-second");
    changed.config["modules_to_save"] = modules;
    changed.config["ensure_weight_tying"] = ties;
    for (const auto& [name, tensor] : tensors) changed.tensors[name] = tensor;
    return changed.logits(base);
  };
  EXPECT_EQ(saved({"lm_head"}, {{output + "weight", weight * 2}}), doubled);
  EXPECT_EQ(saved({"wte", "lm_head"}, {{table + "weight", weight}, {output + "weight", weight * 2}}),
            doubled);
  EXPECT_EQ(saved({"lm_head"}, {{output + "modules_to_save.default.weight", weight * 2},
                                {output + "original_module.weight", weight}}),
            doubled);
  const std::vector<float> both =
      saved({"wte", "lm_head"}, {{table + "weight", weight * 2}, {output + "weight", weight * 2}});
  EXPECT_NE(saved({"wte"}, {{table + "weight", weight * 2}}), both) << "the output map stays";
  EXPECT_EQ(saved({"wte"}, {{table + "weight", weight * 2}}, true), both);
  // LoRA of the output map leaves the table alone: 2 W as W + W I.
  Changed lora("gpt2-second");
  Tensor identity = Tensor::zeros({48, 48});
  for (std::int64_t i = 0; i < 48; ++i) identity.data<float>()[i * 49] = 1;
  lora.config["target_modules"] = {"attn.c_attn", "lm_head"};
  lora.config["rank_pattern"] = {{"lm_head", 48}};
  lora.config["alpha_pattern"] = {{"lm_head", 48}};
  lora.tensors[output + "lora_A.weight"] = identity;
  lora.tensors[output + "lora_B.weight"] = weight;
  const std::vector<float> added = lora.logits(base);
  for (std::size_t i = 0; i < added.size(); ++i) ASSERT_NEAR(added[i], doubled[i], 1e-4) << i;
}

TEST(AdapterFiles, TensorsOfAStateDictHaveTheAdaptersName) {
  const Changed plain("gpt2-second");
  Changed named("gpt2-second");
  named.tensors.clear();
  for (const auto& [name, tensor] : plain.tensors)
    named.tensors[name.substr(0, name.rfind('.')) + ".default.weight"] = tensor;
  EXPECT_EQ(named.logits("decoders/gpt2"), plain.logits("decoders/gpt2"));
}

TEST(AdapterFiles, FilesOfTokenTablesThatDoNotFit) {
  const std::string table = "base_model.model.model.embed_tokens.";
  Changed whole("gemma3");
  EXPECT_EQ(whole.message("decoders/gemma3"), "no error");
  Changed other("gemma3");  // another table, which the output map would share
  other.tensors[table + "base_layer.weight"] = Tensor::zeros({485, 32});
  EXPECT_THAT(other.message("decoders/gemma3"), HasSubstr("shares its weight"));
  Changed ties("gemma3");
  ties.config["ensure_weight_tying"] = true;
  EXPECT_THAT(ties.message("decoders/gemma3"), HasSubstr("lm_head.weight as well (ensure_weight_tying)"));
  Changed half("gemma3");
  half.tensors.erase(table + "lora_embedding_B");
  EXPECT_THAT(half.message("decoders/gemma3"), HasSubstr("lora_embedding_B: not found"));
  Changed none("gemma3");
  for (const char* end : {"lora_embedding_A", "lora_embedding_B"}) none.tensors.erase(table + end);
  EXPECT_THAT(none.message("decoders/gemma3"), HasSubstr("not found, though target_modules matches it"));
  Changed wide("gemma3");
  wide.tensors[table + "lora_embedding_A"] = Tensor::zeros({4, 486});
  EXPECT_THAT(wide.message("decoders/gemma3"), HasSubstr("expected [4, 485]"));
  Changed map("gemma3");
  map.tensors[table + "lora_A.weight"] = Tensor::zeros({4, 485});
  EXPECT_THAT(map.message("decoders/gemma3"), HasSubstr("expected an adapter of a linear map"));
  Changed shared("t5");
  shared.tensors["base_model.model.shared.lora_embedding_A"] = Tensor::zeros({3, 4});
  EXPECT_THAT(shared.message("t5"), HasSubstr("expected an adapter of a token table"));
}

}  // namespace
}  // namespace heed
