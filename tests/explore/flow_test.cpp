// Sizes against taps, and effects against what the model answers when a part is taken out of its last stream.
#include "explore/views/views.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "explore/numbers.h"
#include "explore/sample_models.h"
#include "heed/autograd.h"
#include "heed/inspect/stream_attribution.h"
#include "heed/nn/tap.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "inspect/stream_sum.h"
#include "inspect/token_input.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed::explore_test {
namespace {

using Json = nlohmann::json;

Json flow(explore::Explorer& explorer, const Json& request) {
  return Json::parse(explore::answer_to(explorer, "/api/flow", request.dump(), kGoOn));
}

const Json& part_of(const Json& answer, const std::string& name, int layer, int head) {
  for (const Json& part : answer["parts"]) {
    if (part["name"] == name && part["layer"] == layer && part["head"] == head) return part;
  }
  throw Error("no such part");
}

double length_of(const Tensor& x) {
  double squares = 0;
  for (const double value : x.to(DType::f64).to_vector<double>()) squares += value * value;
  return std::sqrt(squares);
}

/// ‖what a head adds at a position‖ over ‖the stream before‖, of a family whose attention adds it as it is.
double size_by_taps(const std::string& fixture, const std::vector<std::int64_t>& ids, std::int64_t position) {
  const NoGradients guard;
  const auto model = load_model(kFixtures / fixture);
  Tensor contributions, stream;
  Taps taps;
  taps.listen("decoder.layers.1.self_attn.contributions",
              [&](const std::string&, Tensor& value) { contributions = value.clone(); });
  taps.listen("decoder.layers.1.in", [&](const std::string&, Tensor& value) { stream = value.clone(); });
  Context context{.taps = &taps};
  model->forward({{"input_ids", inspect::one_row(ids)}}, {}, context);
  const Tensor own = slice(slice(contributions, 1, 2, 3), 2, position, position + 1);
  return length_of(own.contiguous()) / length_of(slice(stream, 1, position, position + 1).contiguous());
}

TEST(Flow, SizesAreThoseOfTaps) {
  for (const char* fixture : {"decoders/gpt2", "decoders/llama"}) {
    explore::Explorer explorer = explorer_of(sample(fixture));
    const Json answer =
        flow(explorer, {{"model", 0}, {"text", "5 17 300 42 7"}, {"stack", "decoder"}, {"position", 3}});
    EXPECT_EQ(answer["layers"], 2);
    EXPECT_NEAR(part_of(answer, "self_attn", 1, 2)["size"], size_by_taps(fixture, {5, 17, 300, 42, 7}, 3),
                1e-5)
        << fixture;
    EXPECT_GT(part_of(answer, "feed_forward", 0, -1)["size"].get<double>(), 0);
  }
}

TEST(Flow, EffectsAddUpToTheLogit) {
  for (const char* fixture : {"decoders/gpt2", "decoders/llama", "decoders/olmo2", "marian", "t5"}) {
    explore::Explorer explorer = explorer_of(sample(fixture));
    Json request{{"model", 0}, {"text", "5 17 9 30 11"}, {"stack", "decoder"}, {"position", 2}};
    const bool pairs = fixture == std::string("marian") || fixture == std::string("t5");
    if (pairs) request["target_ids"] = {3, 8, 21, 8};
    const Json answer = flow(explorer, request);
    ASSERT_TRUE(answer["has_effects"]) << fixture;
    double sum = 0;
    for (const Json& part : answer["parts"]) {
      if (!part["effect"].is_null()) sum += part["effect"].get<double>();
    }
    EXPECT_NEAR(sum, answer["logit"], 1e-3) << fixture;
    EXPECT_EQ(answer["id"], answer["candidates"][0]["id"]) << "the best one";
    request["stack"] = "encoder";
    if (!pairs) continue;
    const Json source = flow(explorer, request);
    EXPECT_FALSE(source["has_effects"]);
    EXPECT_TRUE(source["candidates"].empty());
    EXPECT_GT(part_of(source, "self_attn", 1, 3)["size"].get<double>(), 0);
  }
}

TEST(Flow, SendsTheLogitsOfThePosition) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const Json answer =
      flow(explorer, {{"model", 0}, {"text", "5 17 300"}, {"stack", "decoder"}, {"position", 2}, {"id", 40}});
  const std::vector<float> logits = floats_of(answer["logits"]);
  ASSERT_EQ(logits.size(), 512u);
  EXPECT_EQ(answer["id"], 40);
  EXPECT_FLOAT_EQ(answer["logit"], logits[40]);
  for (const Json& one : answer["candidates"])
    EXPECT_FLOAT_EQ(one["logit"], logits[one["id"].get<std::size_t>()]);
}

/// What the answer of an encoder is at a position whose last stream lacks one part.
double logit_without(const Model& model, const TensorMap& inputs, std::int64_t position,
                     const StreamPart& part, std::int64_t id) {
  const NoGradients guard;
  const Stack& stack = *model.stack_named("encoder");
  inspect::StreamRecorder recorder(stack, {{"position", position}}, inspect::end_of(stack));
  Taps recording;
  recorder.listen(recording);
  Context context{.taps = &recording};
  model.forward(inputs, {}, context);
  const inspect::StreamSum sum = recorder.sum();
  Tensor without = sum.whole();
  for (std::size_t i = 0; i < sum.parts.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (sum.parts[i].name == part.name && sum.parts[i].layer == part.layer && sum.parts[i].head == part.head)
      without = without - reshape(slice(sum.values, 0, at, at + 1), without.shape());
  }
  Taps taps;
  taps.listen("encoder.layers." + std::to_string(stack.layers.size() - 1) + ".out",
              {.queries = {position, position + 1}}, [&](const std::string&, Tensor& value) {
                value = reshape(without.to(DType::f32), value.shape());
              });
  Context again{.taps = &taps};
  const Tensor logits = model.forward(inputs, {}, again).at("logits");
  const Tensor row = logits.rank() == 3 ? slice(logits, 1, position, position + 1) : logits;
  return row.contiguous().to_vector<float>()[static_cast<std::size_t>(id)];
}

TEST(Flow, EffectsOnHeadsOfEncodersAreThoseOfRemoval) {
  const struct {
    const char* fixture;
    std::int64_t position;
  } cases[] = {{"encoders/bert-mlm", 2}, {"encoders/bert-classify", 0}, {"encoders/modernbert-classify", 1}};
  for (const auto& [fixture, position] : cases) {
    explore::Explorer explorer = explorer_of(sample(fixture, false, 17));
    const Json answer =
        flow(explorer, {{"model", 0}, {"text", "5 9 17 42 7"}, {"stack", "encoder"}, {"position", position}});
    ASSERT_TRUE(answer["has_effects"]) << fixture;
    EXPECT_FALSE(answer["linear"]);
    const auto model = load_model(kFixtures / fixture);
    TensorMap inputs{{"input_ids", inspect::one_row({5, 9, 17, 42, 7})}};
    if (dynamic_cast<const EncoderModel&>(*model).type_vocab_size() > 1)
      inputs["token_type_ids"] = inspect::one_row({0, 0, 0, 0, 0});
    for (const StreamPart& part : {StreamPart{"self_attn", 1, 2}, StreamPart{"feed_forward", 0, -1}}) {
      const double without = logit_without(*model, inputs, position, part, answer["id"]);
      EXPECT_NEAR(
          part_of(answer, part.name, static_cast<int>(part.layer), static_cast<int>(part.head))["effect"],
          answer["logit"].get<double>() - without, 1e-4)
          << fixture << " " << part.name;
    }
  }
}

TEST(Flow, FollowsChangedHeads) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  Json request{{"model", 0}, {"text", "5 17 300"}, {"stack", "decoder"}, {"position", 2}};
  request["changes"] = {{{"kind", "decoder"}, {"layer", 1}, {"head", 2}, {"factor", 0}}};
  const Json answer = flow(explorer, request);
  EXPECT_EQ(part_of(answer, "self_attn", 1, 2)["size"], 0);
  EXPECT_EQ(part_of(answer, "self_attn", 1, 2)["effect"], 0);
}

TEST(Flow, FollowsAPatchOfAnImage) {
  explore::Explorer explorer = explorer_of(sample_of_files("vit"));
  const std::string photo = slurp(kFixtures / "image/pictures/photo.jpg");
  const Json file = Json::parse(explorer.add_file(0, photo, kGoOn))["file"];
  const Json answer = flow(explorer, {{"model", 0}, {"file", file}, {"stack", "encoder"}, {"position", 0}});
  EXPECT_EQ(answer["tokens"].size(), 17u) << "the class token and 4 x 4 patches";
  EXPECT_TRUE(answer["has_effects"]);
  EXPECT_GT(part_of(answer, "self_attn", 1, 2)["size"].get<double>(), 0);
}

TEST(Flow, RefusesWhatIsNotThere) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const Json request{{"model", 0}, {"text", "5 17 300"}, {"stack", "decoder"}, {"position", 2}};
  const auto asked = [&](const char* key, const Json& value) {
    Json other = request;
    other[key] = value;
    return other;
  };
  EXPECT_ERROR(flow(explorer, asked("stack", "encoder")),
               "stack: expected a Transformer's encoder or decoder");
  EXPECT_ERROR(flow(explorer, asked("position", 3)), "position: expected a position below 3, got 3");
  EXPECT_ERROR(flow(explorer, asked("id", 512)), "id: expected one below 512, got 512");
}

}  // namespace
}  // namespace heed::explore_test
