// Damaged files of a checkpoint cause an Error that names file and field.
#include "heed/train/checkpoint.h"

#include <gmock/gmock.h>

#include <cmath>

#include "files/folder_lock.h"
#include "heed/error.h"
#include "heed/io/safetensors.h"
#include "reference/error.h"
#include "run_folder.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct CheckpointFiles : FolderTest {
  std::string state_error(const std::string& from, const std::string& to) const {
    std::string text =
        R"({"step": 3, "epoch": 1, "batch": 2, "generator_position": 9, "tokens": 77, "seconds": 1.5,
            "metric": "loss", "ranked": [{"step": 2, "score": 0.5}], "not_better": 0, "fingerprint": "f",
            "recipe": {}})";
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    write_file(folder_ / "training.json", text);
    return error_of([&] { load_training_state(folder_); });
  }
};

TEST_F(CheckpointFiles, StateCountsFromZero) {
  EXPECT_EQ(state_error("", ""), "no error");
  for (const char* key : {"step", "epoch", "batch", "generator_position", "tokens", "not_better"}) {
    const std::string name = '"' + std::string(key) + "\": ";
    for (const char* wrong : {"-1, \"x\": ", "9223372036854775807, \"x\": ", "\"1\", \"x\": "}) {
      EXPECT_THAT(state_error(name, name + wrong),
                  AllOf(HasSubstr("training.json: " + std::string(key)), HasSubstr("expected an integer")));
    }
  }
  EXPECT_THAT(state_error("[{\"step\": 2", "[{\"step\": -2"),
              HasSubstr("training.json: ranked.0.step: expected"));
  EXPECT_THAT(state_error("\"fingerprint\": \"f\",", ""), HasSubstr("training.json: fingerprint: expected"));
}

TEST_F(CheckpointFiles, WarmUpOfEarlierVersionsIsInTheRecipe) {
  state_error("\"recipe\": {}", "\"recipe\": {\"train.warmup\": \"1000\"}");
  EXPECT_EQ(load_training_state(folder_).warmup, 1000);
  state_error("\"recipe\": {}", "\"warmup\": 7, \"recipe\": {\"train.warmup\": \"0.1\"}");
  EXPECT_EQ(load_training_state(folder_).warmup, 7);
}

TEST_F(CheckpointFiles, AverageRefusesWhatIsNotFiniteDamagedOrInUse) {
  const auto model = [&](const char* name, double value) {
    std::filesystem::create_directories(folder_ / name);
    save_safetensors(folder_ / name / "model.safetensors", {{"w", Tensor::full({2}, value)}});
    return folder_ / name;
  };
  const auto good = model("good", 1), nan = model("nan", NAN), out = folder_ / "out";
  EXPECT_THAT(error_of([&] {
                average_models({good, nan}, out);
              }),
              HasSubstr("nan/model.safetensors: w: expected finite weights, got nan"));
  EXPECT_ERROR(average_models({nan}, out), "expected finite weights");
  EXPECT_FALSE(std::filesystem::exists(out / "model.safetensors"));
  {
    AtomicDirectory whole(folder_ / "whole");
    save_safetensors(whole.path() / "model.safetensors", {{"w", Tensor::full({2}, 3)}});
    whole.commit();
  }
  average_models({good, folder_ / "whole"}, out);
  EXPECT_EQ(SafetensorsFile::open(out / "model.safetensors").get("w").to_vector<float>(),
            (std::vector<float>{2, 2}));
  EXPECT_FALSE(std::filesystem::exists(out / "lock"));
  {
    const FolderLock lock(out);
    EXPECT_ERROR(average_models({good}, out), "expected a folder that nobody else");
  }
  save_safetensors(folder_ / "whole" / "model.safetensors", {{"w", Tensor::full({2}, 4)}});
  EXPECT_THAT(error_of([&] {
                average_models({good, folder_ / "whole"}, out);
              }),
              HasSubstr("whole/model.safetensors: expected the "));
}

TEST_F(CheckpointFiles, TensorsMustFit) {
  const std::vector<Parameter> parameters{{"w", Tensor::zeros({2})}};
  const auto error_with = [&](const Tensor& w, const Tensor& m, std::int64_t steps) {
    save_safetensors(folder_ / "model.safetensors", {{"w", w}});
    save_safetensors(
        folder_ / "optimizer.safetensors",
        {{"m.w", m}, {"v.w", m}, {"steps", Tensor::full({1}, static_cast<double>(steps), DType::i64)}});
    AdamW optimizer(parameters, {});
    return error_of([&] {
      load_checkpoint_weights(folder_, parameters);
      load_checkpoint_optimizer(folder_, optimizer);
    });
  };
  const Tensor good = Tensor::zeros({2});
  EXPECT_EQ(error_with(good, good, 3), "no error");
  EXPECT_THAT(error_with(Tensor::zeros({3}), good, 3),
              HasSubstr("model.safetensors: w: expected [2], got [3]"));
  EXPECT_THAT(error_with(good, Tensor::zeros({3}), 3),
              HasSubstr("optimizer.safetensors: AdamW: m.w: expected"));
  EXPECT_THAT(error_with(good, good, -1),
              HasSubstr("optimizer.safetensors: AdamW: steps: expected integers from 0"));
  EXPECT_THAT(error_with(good, good, INT64_MIN), HasSubstr("steps: expected integers from 0"));
}

}  // namespace
}  // namespace heed
