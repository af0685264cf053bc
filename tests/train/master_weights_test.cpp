// Weights stored in bf16 beside masters in f32: the same numbers as rounded f32 weights in every family,
// updates that lose nothing, checkpoints and final models in f32, and resumed runs.
#include "train/optimizer/master_weights.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "heed/models/registry.h"
#include "heed/ops/matmul.h"
#include "heed/train/checkpoint.h"
#include "tasks_fixture.h"
#include "tensor/impl.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Tensor rounded(const Tensor& numbers) { return numbers.detach().to(DType::bf16).to(DType::f32); }

class Bf16Families : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    All, Bf16Families,
    testing::Values("decoders/gpt2", "decoders/llama", "decoders/gpt-neox", "decoders/bloom", "decoders/mpt",
                    "decoders/mixtral", "decoders/gemma3", "decoders/phi3", "decoders/transformer-fixed",
                    "decoders/transformer-linear", "encoders/bert-mlm", "encoders/albert-mlm",
                    "encoders/deberta-v3-mlm", "encoders/mpnet-mlm", "encoders/modernbert-mlm", "marian",
                    "bart", "t5", "t5-v1.1", "transformer-seq2seq", "recurrent/additive-gru",
                    "recurrent/concat-lstm", "recurrent/general-lstm-feeding", "recurrent/none-gru"),
    [](const auto& info) {
      std::string name = info.param;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      return name;
    });

Tensor ids_of(const Shape& shape, std::int64_t first) {
  Tensor ids = Tensor::empty(shape, DType::i64);
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.data<std::int64_t>()[i] = 5 + (first + i * i) % 15;
  return ids;
}

Tensor loss_of(const Model& model, Context& context) {
  const Tensor ids = ids_of({2, 9}, 1), labels = ids_of({2, 9}, 2), all = Tensor::full({2, 9}, 1, DType::i64);
  if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model))
    return decoder->loss({.ids = ids}, labels, {}, context);
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model))
    return encoder->loss({ids, all}, labels, {}, context);
  return dynamic_cast<const EncoderDecoderModel&>(model).loss({ids, all}, ids_of({2, 6}, 3), {}, context);
}

TEST_P(Bf16Families, GiveTheBitsOfRoundedWeights) {
  Generator generator(3);
  const auto model =
      make_model(Config::load(fs::path(HEED_FIXTURES) / GetParam() / "config.json"), generator);
  for (const Parameter& p : model->parameters()) {
    if (takes_bf16(p)) p.tensor.copy_from(rounded(p.tensor));
  }
  const auto run = [&](bool mixed, bool checkpointing) {
    Context context{.gradient_checkpointing = checkpointing};
    std::optional<MixedPrecision> guard;
    if (mixed) guard.emplace();
    const Tensor loss = loss_of(*model, context);
    loss.backward();
    std::vector<std::vector<float>> numbers{{static_cast<float>(loss.item())}};
    for (const Parameter& p : model->parameters()) {
      numbers.push_back(p.tensor.grad().defined() ? p.tensor.grad().to_vector<float>()
                                                  : std::vector<float>());
      p.tensor.zero_grad();
    }
    return numbers;
  };
  std::vector<std::vector<std::vector<float>>> wide;
  for (const bool mixed : {false, true}) wide.push_back(run(mixed, false));
  for (const Parameter& p : model->parameters()) {
    if (takes_bf16(p)) set_data(p.tensor, p.tensor.detach().to(DType::bf16));
  }
  for (const bool mixed : {false, true}) {
    for (const bool checkpointing : {false, true}) {
      const auto narrow = run(mixed, checkpointing);
      const auto& expected = wide[mixed ? 1 : 0];
      EXPECT_EQ(narrow[0], expected[0]);
      for (std::size_t i = 0; i < model->parameters().size(); ++i)
        EXPECT_TRUE(narrow[i + 1] == expected[i + 1]) << mixed << " " << model->parameters()[i].name;
    }
  }
}

TEST(MasterWeights, AreThereWhileTheyAreSaved) {
  Tensor a = Tensor::from(std::vector<float>{1.001F, 2}, {1, 2}),
         b = Tensor::from(std::vector<float>{3.003F}, {1});
  const std::vector<Parameter> parameters{{"a", a.set_requires_grad()}, {"b", b.set_requires_grad()}};
  const AdamW optimizer(parameters, {.bf16_weights = true});
  EXPECT_EQ(a.dtype(), DType::bf16);
  EXPECT_EQ(b.dtype(), DType::f32);  // a vector
  const std::vector<float> narrow = a.to(DType::f32).to_vector<float>();
  EXPECT_EQ(narrow, (std::vector<float>{1, 2}));
  {
    const MasterWeights masters(parameters, optimizer.masters());
    EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1.001F, 2}));
    EXPECT_TRUE(a.requires_grad());
  }
  EXPECT_EQ(a.dtype(), DType::bf16);
  EXPECT_EQ(first_not_finite(parameters, optimizer.masters()), "");
  optimizer.masters().at("a").data<float>()[0] = NAN;
  EXPECT_EQ(first_not_finite(parameters, optimizer.masters()), "a");
  widen_weights(parameters);
  EXPECT_EQ(a.to_vector<float>(), narrow);
}

class Bf16Training : public TasksTest {
 protected:
  Recipe small(std::int64_t steps, const std::string& weights) const {
    Recipe r = causal(steps);
    r.train.precision = "bf16";
    r.train.weights = weights;
    r.train.accumulate = 2;
    r.train.clip_norm = 1;
    r.model.settings["embd_pdrop"] = r.model.settings["resid_pdrop"] = r.model.settings["attn_pdrop"] = "0";
    return r;
  }
  static std::vector<double> losses(const fs::path& run) {
    std::vector<double> all;
    for (const std::string& line : log_lines(run)) {
      const Config json = Config::parse(line, "log.jsonl");
      if (json.has("loss")) all.push_back(json.required_number("loss"));
    }
    return all;
  }
  static bool is_rounded(const fs::path& file, const std::string& name) {
    const Tensor numbers = SafetensorsFile::open(file).get(name);
    EXPECT_EQ(numbers.dtype(), DType::f32);
    return numbers.to_vector<float>() == rounded(numbers).to_vector<float>();
  }
};

TEST_F(Bf16Training, FollowsTheCurveOfF32Weights) {
  train(small(60, "f32"), {.output = folder_ / "wide"});
  train(small(60, "bf16"), {.output = folder_ / "narrow"});
  const auto wide = losses(folder_ / "wide"), narrow = losses(folder_ / "narrow");
  ASSERT_EQ(narrow.size(), wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(narrow[i], wide[i], 0.02 * wide[0]) << i;
  EXPECT_LT(narrow.back(), 0.5 * narrow.front());
  const char* table = "transformer.wte.weight";
  EXPECT_FALSE(is_rounded(folder_ / "narrow/model.safetensors", table));
  EXPECT_FALSE(is_rounded(checkpoint_path(folder_ / "narrow", 60) / "model.safetensors", table));
}

TEST_F(Bf16Training, FirstStepHasTheBitsOfRoundedWeights) {
  const Recipe r = small(1, "f32");
  train(r, {.output = folder_ / "made"});
  const fs::path made = folder_ / "made/model.safetensors";
  std::vector<NamedTensor> tensors;
  const TensorFiles file = TensorFiles::open(folder_ / "made");
  for (const std::string& name : file.names()) tensors.push_back({name, rounded(file.get(name))});
  fs::create_directory(folder_ / "rounded");
  for (const auto& entry : fs::directory_iterator(folder_ / "made")) {
    if (entry.is_regular_file() && entry.path().extension() == ".json")
      fs::copy(entry.path(), folder_ / "rounded" / entry.path().filename());
  }
  save_safetensors(folder_ / "rounded/model.safetensors", tensors);
  const auto first_line = [&](const std::string& weights) {
    const fs::path run = folder_ / weights;
    Recipe first = small(1, weights);
    first.model.settings.clear();
    train(first, {.output = run, .init = folder_ / "rounded"});
    const Config json = Config::parse(log_lines(run).front(), "log.jsonl");
    return std::pair(json.required_number("loss"), json.required_number("grad_norm"));
  };
  EXPECT_EQ(first_line("bf16"), first_line("f32"));
  EXPECT_EQ(weights(folder_ / "bf16"), weights(folder_ / "f32"));  // the update is that of the masters
}

TEST_F(Bf16Training, StoppedAndResumedEqualsUnbroken) {
  Recipe r = small(9, "bf16");
  r.task.freeze = "transformer.wpe.*";
  r.checkpoint.average = 2;
  r.checkpoint.average_of = "last";
  train_twice(r, folder_ / "straight", folder_ / "broken");
  EXPECT_EQ(weights(folder_ / "straight"), weights(folder_ / "broken"));
}

TEST_F(Bf16Training, AResumedRunMaySwitchIt) {
  train(small(4, "bf16"), {.output = folder_ / "run"});
  train(small(8, "f32"), {.output = folder_ / "run", .resume = true});
  train(small(12, "bf16"), {.output = folder_ / "run", .resume = true});
  EXPECT_EQ(losses(folder_ / "run").size(), 12u);
}

TEST_F(Bf16Training, RoundsTheBaseOfAnAdapterOnly) {
  train(small(4, "f32"), {.output = folder_ / "base"});
  Recipe r = small(6, "bf16");
  r.model.settings.clear();
  r.lora.rank = 2;
  r.lora.targets = {.names = {"c_attn"}};
  train_twice(r, folder_ / "straight", folder_ / "broken", folder_ / "base");
  const fs::path adapter = "adapter_model.safetensors";
  EXPECT_EQ(read_file(folder_ / "straight" / adapter), read_file(folder_ / "broken" / adapter));
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "straight" / adapter);
  EXPECT_FALSE(is_rounded(folder_ / "straight" / adapter, file.tensors().front().name));
}

TEST_F(Bf16Training, NeedsProductsInBf16) {
  Recipe r = small(4, "bf16");
  r.train.precision = "f32";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("train.weights: expected train.precision = \"bf16\" beside bf16, got f32"));
}

}  // namespace
}  // namespace heed
