// The encoder of T5 alone against that of the whole model.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// A T5EncoderModel has the encoder's tensors alone, and gives what the encoder of the whole model gives.
TEST(T5Encoder, EqualsTheEncoderOfTheWholeModel) {
  for (const char* fixture : {"t5", "t5-v1.1"}) {
    SCOPED_TRACE(fixture);
    const fs::path whole = fs::path(HEED_FIXTURES) / fixture;
    const TemporaryFolder folder;
    auto config = read_json(whole / "config.json");
    config["architectures"] = {"T5EncoderModel"};
    spill(folder / "config.json", config.dump());
    std::vector<NamedTensor> tensors;
    for (const auto& [name, tensor] : read_tensors(whole / "model.safetensors")) {
      if (name.starts_with("encoder.") || name == "shared.weight") tensors.push_back({name, tensor});
    }
    save_safetensors(folder / "model.safetensors", tensors);

    TensorMap inputs = read_tensors(whole / "inputs.safetensors");
    std::erase_if(inputs, [](const auto& input) {
      return input.first != "input_ids" && input.first != "attention_mask";
    });
    const TensorMap expected = read_tensors(whole / "expected.safetensors");
    const NoGradients guard;
    Context context;
    const auto model = load_as<EncoderModel>(folder);
    const TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
    EXPECT_LE(relative_error(outputs.at("last_hidden_state"), expected.at("encoder_last_hidden_state")),
              1e-5);
    for (const auto& [name, value] : outputs) {
      if (name == "last_hidden_state") continue;
      EXPECT_LE(relative_error(value, expected.at("encoder_" + name)), 1e-5) << name;
    }
    EXPECT_EQ(outputs.size(), 1 + static_cast<std::size_t>(2 * config["num_layers"].get<int>() + 1));
    EXPECT_ERROR(model->predict(outputs.at("last_hidden_state"), {}, context),
                 "predict: expected a model with a head");
    EXPECT_ERROR(load_as<EncoderDecoderModel>(folder), "expected an encoder-decoder model, got t5");
    model->save(folder);
    EXPECT_EQ(load_as<EncoderModel>(folder)
                  ->forward(inputs, {}, context)
                  .at("last_hidden_state")
                  .to_vector<float>(),
              outputs.at("last_hidden_state").to_vector<float>());
  }
}

}  // namespace
}  // namespace heed
