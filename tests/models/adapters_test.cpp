// Adapters of Hugging Face's PEFT (tests/fixtures/adapters): outputs with one and with two, merged weights, a
// training curve, and what is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "kernels/optimizer.h"
#include "models/adapters.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kBases = HEED_FIXTURES, kAdapters = kBases / "adapters";

struct AdapterCase {
  const char* name;
  const char* base;
  const char* merged;  // a weight that the fixture has merged; none: it cannot be
  LoraOptions options;
};
const AdapterCase kAdapterCases[] = {
    {"bert-classify",
     "encoders/bert-mlm",
     "bert.encoder.layer.1.attention.self.value.weight",
     {.rank = 4, .alpha = 6, .targets = {.names = {"query", "value"}}}},
    {"gpt2-second",
     "decoders/gpt2",
     "transformer.h.0.attn.c_attn.weight",
     {.rank = 2, .alpha = 2, .targets = {.names = {"attn.c_attn"}}}},
    {"t5",
     "t5",
     "decoder.block.1.layer.1.EncDecAttention.v.weight",
     {.rank = 3, .alpha = 6, .targets = {.names = {"q", "v"}}}},
    {"qwen3",
     "decoders/qwen3",
     "model.layers.1.mlp.gate_proj.weight",
     {.rank = 4, .targets = {.expression = R"(.*\.(q_proj|o_proj|gate_proj|down_proj)|lm_head)"}}},
    {"bert-words",
     "encoders/bert-mlm",
     "bert.embeddings.word_embeddings.weight",
     {.rank = 4, .alpha = 6, .targets = {.names = {"query", "word_embeddings"}}}},
    {"gemma3", "decoders/gemma3", nullptr, {.rank = 4, .targets = {.names = {"q_proj", "embed_tokens"}}}},
};

Tensor logits(const Model& model, const TensorMap& inputs) {
  const NoGradients guard;
  Context context;
  return model.forward(inputs, {}, context).at("logits");
}

TensorMap stored(const fs::path& directory) { return read_tensors(directory / "model.safetensors"); }

class AdapterTest : public testing::TestWithParam<AdapterCase> {
 protected:
  bool has_new_head() const { return base.filename() == "bert-mlm"; }
  std::unique_ptr<Model> model_to_train(Generator& head) const {
    if (!has_new_head()) return load_model(base);
    const Config config = load_model_config(base).with(
        R"({"architectures": ["BertForSequenceClassification"], "id2label": null, "num_labels": 4})");
    return load_encoder(base, config, head);
  }
  fs::path directory = kAdapters / GetParam().name, base = kBases / GetParam().base;
  TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  TensorMap expected = read_tensors(directory / "expected.safetensors");
};
INSTANTIATE_TEST_SUITE_P(All, AdapterTest, testing::ValuesIn(kAdapterCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(AdapterTest, OutputsEqualPeft) {
  const auto model = load_model(base, DType::f32, {{directory}});
  EXPECT_LE(relative_error(logits(*model, inputs), expected.at("logits")), 1e-5);
  EXPECT_LE(relative_error(logits(*model, inputs), expected.at("logits")), 1e-5);  // weights are packed now
  const auto narrow = load_model(base, DType::bf16, {{directory}});
  EXPECT_LE(relative_error(logits(*narrow, inputs), expected.at("logits")), 0.1);
}

TEST_P(AdapterTest, MergedModelIsWholeAndEqual) {
  const TemporaryFolder folder;
  {
    const auto model = load_model(base, DType::f32, {{directory}});
    EXPECT_ERROR(model->save(folder.path()), "merge");
    logits(*model, inputs);  // packs the weights
    if (GetParam().merged == nullptr) {
      EXPECT_ERROR(model->merge_adapters(), "lm_head.weight shares");
      EXPECT_LE(relative_error(logits(*model, inputs), expected.at("logits")), 1e-5);
      return;
    }
    model->merge_adapters();
    EXPECT_LE(relative_error(logits(*model, inputs), expected.at("logits")), 1e-5);
    model->save(folder.path());
  }
  const auto model = load_model(folder.path());
  EXPECT_LE(relative_error(logits(*model, inputs), expected.at("logits")), 1e-5);
  const std::string name = GetParam().merged;
  EXPECT_LE(relative_error(stored(folder.path()).at(name), expected.at("merged." + name)), 1e-6);
}

TEST_P(AdapterTest, BaseFileAndItsOutputsStay) {
  const std::string before = read_file(base / "model.safetensors");
  const auto plain = load_model(base);
  if (has_new_head()) return;
  const Tensor own = logits(*plain, inputs);
  const auto adapted = load_model(base);
  EXPECT_EQ(logits(*adapted, inputs).to_vector<float>(), own.to_vector<float>());
  adapted->add_adapter(directory, 0.0);
  EXPECT_LE(relative_error(logits(*adapted, inputs), own), 0);
  EXPECT_GT(relative_error(own, expected.at("logits")), 0.01);
  EXPECT_EQ(read_file(base / "model.safetensors"), before);
}

// Ten steps of AdamW from PEFT's initial tensors.
TEST_P(AdapterTest, TrainingFollowsPeft) {
  Generator generator(5);
  Generator head(1);
  const auto model = model_to_train(head);
  const std::vector<Parameter> base_parameters = model->parameters();
  std::vector<std::vector<float>> before;
  for (const Parameter& p : base_parameters) before.push_back(p.tensor.detach().to_vector<float>());

  const std::vector<Parameter> parameters = model->train_adapter(GetParam().options, generator);
  const TensorMap initial = read_tensors(directory / "initial.safetensors");
  for (const Parameter& p : parameters) {
    ASSERT_TRUE(initial.contains(p.name)) << p.name;
    p.tensor.copy_from(initial.at(p.name));
  }
  const json training = read_json(directory / "training.json");
  std::vector<std::pair<Tensor, Tensor>> moments;
  for (const Parameter& p : parameters)
    moments.emplace_back(Tensor::zeros(p.tensor.shape()), Tensor::zeros(p.tensor.shape()));
  Context context;
  for (int step = 0; step < 10; ++step) {
    const Tensor loss = model->forward(inputs, {}, context).at("loss");
    const double want = training.at("losses").at(static_cast<std::size_t>(step));
    EXPECT_NEAR(loss.item(), want, 1e-4 * want) << "step " << step;
    loss.backward();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = parameters[i];
      ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
      const kernels::AdamW options{.lr = training.at("learning_rate"),
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .eps = 1e-8,
                                   .weight_decay = p.decays ? 0.01 : 0.0,
                                   .grad_scale = 1,
                                   .step = step + 1};
      kernels::adamw(p.tensor.data<float>(), p.tensor.grad().contiguous().data<float>(),
                     moments[i].first.data<float>(), moments[i].second.data<float>(), p.tensor.numel(),
                     options);
      p.tensor.zero_grad();
    }
  }
  for (std::size_t i = 0; i < base_parameters.size(); ++i) {
    const Parameter& p = base_parameters[i];
    const bool whole = p.tensor.requires_grad();
    EXPECT_EQ(p.tensor.detach().to_vector<float>() == before[i], !whole) << p.name;
    EXPECT_TRUE(whole || !p.tensor.grad().defined()) << p.name;
  }
}

// Keys, shapes and config as PEFT writes them, and the same numbers when they are loaded again.
TEST_P(AdapterTest, WritesWhatPeftWrites) {
  const TemporaryFolder folder;
  Generator generator(5), head(1);
  const auto model = model_to_train(head);
  for (const Parameter& p : model->train_adapter(GetParam().options, generator)) {
    if (!p.name.ends_with("lora_B.weight") && !p.name.ends_with("lora_embedding_A")) continue;
    for (std::int64_t i = 0; i < p.tensor.numel(); ++i)
      p.tensor.data<float>()[i] = 0.1f * static_cast<float>(i % 7);
  }
  model->save(folder.path());
  TensorMap theirs = read_tensors(directory / "adapter_model.safetensors");
  std::erase_if(theirs,
                [](const auto& named) { return named.first.find("base_layer") != std::string::npos; });
  const TensorMap ours = read_tensors(folder / "adapter_model.safetensors");
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : ours) {
    ASSERT_TRUE(theirs.contains(name)) << name;
    EXPECT_EQ(tensor.shape(), theirs.at(name).shape()) << name;
  }
  const json config = read_json(folder / "adapter_config.json"),
             wanted = read_json(directory / "adapter_config.json");
  for (const auto& [key, value] : config.items()) {
    if (key == "base_model_name_or_path") {
      EXPECT_EQ(value, base.string());
    } else if (key == "modules_to_save" && !wanted.at(key).is_null()) {
      const json own = {"bert.pooler.dense", "classifier"};
      EXPECT_EQ(value, own);
    } else if (key == "target_modules" && value.is_array()) {
      EXPECT_EQ(value.get<std::set<std::string>>(), wanted.at(key).get<std::set<std::string>>());
    } else {
      EXPECT_EQ(value, wanted.at(key)) << key;
    }
  }
  const auto again = load_model(base, DType::f32, {{folder.path()}});
  EXPECT_EQ(logits(*again, inputs).to_vector<float>(), logits(*model, inputs).to_vector<float>());
  EXPECT_EQ(base_of_adapter(folder.path()), base.string());
  EXPECT_ERROR(load_model(folder.path()), "got a LoRA adapter (give --model");
}

TEST(Adapters, AddUpWithWeights) {
  const TensorMap inputs = read_tensors(kAdapters / "gpt2/inputs.safetensors");
  const Tensor both = read_tensors(kAdapters / "gpt2-second/expected.safetensors").at("sum.logits");
  const auto model = load_model(kBases / "decoders/gpt2", DType::f32,
                                {{kAdapters / "gpt2"}, {kAdapters / "gpt2-second", 0.5}});
  EXPECT_LE(relative_error(logits(*model, inputs), both), 1e-5);
  model->merge_adapters();
  EXPECT_LE(relative_error(logits(*model, inputs), both), 1e-5);
}

TEST(Adapters, PatternsOfRankAndAlphaAndStabilizedRank) {
  const fs::path directory = kAdapters / "gpt2";
  const TensorMap expected = read_tensors(directory / "expected.safetensors");
  const auto model = load_model(kBases / "decoders/gpt2");
  model->add_adapter(directory);
  EXPECT_LE(
      relative_error(logits(*model, read_tensors(directory / "inputs.safetensors")), expected.at("logits")),
      1e-5);
}

TEST(Adapters, ManyThreadsGetTheNumbersOfOne) {
  for (const std::string name : {"gpt2", "gemma3"}) {
    const fs::path directory = kAdapters / name, base = kBases / "decoders" / name;
    const TensorMap inputs = read_tensors(directory / "inputs.safetensors");
    const std::vector<AdapterSource> sources{{directory}};
    const auto alone = load_model(base, DType::f32, sources);
    const std::vector<float> wanted = logits(*alone, inputs).to_vector<float>();
    const auto shared = load_model(base, DType::f32, sources);
    std::vector<std::vector<float>> got(6);
    std::vector<std::thread> threads;
    for (auto& result : got)
      threads.emplace_back([&] { result = logits(*shared, inputs).to_vector<float>(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : got) EXPECT_EQ(result, wanted) << name;
  }
}

TEST(Adapters, DecodingSeesThem) {
  const TensorMap inputs = read_tensors(kAdapters / "gpt2/inputs.safetensors");
  const auto model = load_as<DecoderModel>(kBases / "decoders/gpt2");
  model->add_adapter(kAdapters / "gpt2");
  const NoGradients guard;
  Context context;
  const Tensor ids = inputs.at("input_ids");
  const Tensor all = model->forward({{"input_ids", ids}}, {}, context).at("logits");
  const auto decoding = model->decode(ids.size(0));
  const Tensor last = decoding->step(ids, context);
  const Tensor wanted = slice(all, 1, ids.size(1) - 1, ids.size(1));
  EXPECT_LE(relative_error(last, reshape(wanted, last.shape())), 1e-5);
}

TEST(Adapters, TheBodyOfAModelTakesThoseOfItsHeads) {
  WeightOptions without_head;
  without_head.head = false;
  const auto body = load_model(kBases / "encoders/bert-mlm", without_head, {{kAdapters / "bert-classify"}});
  EXPECT_EQ(dynamic_cast<const EncoderModel&>(*body).head(), EncoderHead::none);
}

TEST(Adapters, NewOnesStartWithoutEffect) {
  const TensorMap inputs = read_tensors(kAdapters / "qwen3/inputs.safetensors");
  const auto model = load_model(kBases / "decoders/qwen3");
  const Tensor before = logits(*model, inputs);
  Generator generator(3);
  const auto parameters =
      model->train_adapter({.rank = 4, .targets = {.expression = "all-linear"}}, generator);
  EXPECT_EQ(parameters.size(), 2u * 2u * 7u);  // without the output map
  EXPECT_EQ(logits(*model, inputs).to_vector<float>(), before.to_vector<float>());
  for (const Parameter& p : parameters) {
    double most = 0;
    for (const float v : p.tensor.detach().to_vector<float>()) most = std::max(most, std::abs(double{v}));
    const double limit = 1 / std::sqrt(static_cast<double>(p.tensor.size(1)));
    if (p.name.ends_with("A.weight")) {
      EXPECT_LE(most, limit) << p.name;
      EXPECT_GT(most, 0.7 * limit) << p.name;
    } else {
      EXPECT_EQ(most, 0) << p.name;
    }
  }
  EXPECT_ERROR(model->train_adapter({.targets = {.names = {"q_proj"}}}, generator), "without adapters");
}

// What PEFT 0.21.2 opens: it wraps every module whose name ends like one of these, such as input_layernorm.
TEST(Adapters, ModulesToSaveAreWholeNames) {
  const TemporaryFolder folder;
  Generator generator(3);
  const auto saved = [&](const char* base, const std::vector<std::string>& train) {
    const auto model = load_model(kBases / base);
    model->train_adapter({.targets = {.expression = "all-linear"}, .train = train}, generator);
    model->save(folder.path());
    return json::parse(read_file(folder / "adapter_config.json")).at("modules_to_save");
  };
  EXPECT_EQ(saved("decoders/llama", {"norm"}), json({"model.norm"}));
  EXPECT_EQ(saved("decoders/llama", {"layers.1", "post_attention_layernorm"}),
            json({"model.layers.0.post_attention_layernorm", "model.layers.1"}));
  EXPECT_EQ(saved("encoders/modernbert-classify", {"norm"}),
            json({"model.embeddings.norm", "head.norm", "classifier"}));
  EXPECT_EQ(saved("encoders/distilbert-classify", {}), json({"pre_classifier", "classifier"}));
}

// The linear maps that PEFT 0.21.2 chooses: those of heads as well, but for the map that gives the classes.
TEST(Adapters, AllLinearIsWhatPeftChooses) {
  const TemporaryFolder folder;
  Generator generator(3);
  const auto head_targets = [&](const char* base) {
    const auto model = load_model(kBases / base);
    model->train_adapter({.targets = {.expression = "all-linear"}}, generator);
    model->save(folder.path());
    std::set<std::string> names;
    const json config = json::parse(read_file(folder / "adapter_config.json"));
    for (const std::string name : config.at("target_modules"))
      if (name.find("layer") == std::string::npos) names.insert(name);
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(head_targets("encoders/modernbert-classify"), Names{"head.dense"});
  EXPECT_EQ(head_targets("encoders/modernbert-mlm"), Names{"head.dense"});
  EXPECT_EQ(head_targets("encoders/bert-mlm"), Names{"cls.predictions.transform.dense"});
  EXPECT_EQ(head_targets("encoders/bert-classify"), Names{"bert.pooler.dense"});
  EXPECT_EQ(head_targets("encoders/roberta-classify"), Names{});
}

TEST(Adapters, NameOfABaseInTheHubCache) {
  EXPECT_EQ(base_name("/c/hub/models--google--t5-small/snapshots/abc/config.json"), "google/t5-small");
  EXPECT_EQ(base_name("/c/hub/models--gpt2/snapshots/abc/config.json"), "gpt2");
  EXPECT_EQ(base_name("/models/snapshots/abc/config.json"), "/models/snapshots/abc");
}

}  // namespace
}  // namespace heed
