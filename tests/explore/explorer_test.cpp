// Runs against PyTorch's numbers in the fixtures, and against the same model with taps placed by hand.
#include "explore/explorer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "explore/sample_models.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/safetensors.h"
#include "heed/nn/tap.h"
#include "heed/ops/shape.h"
#include "reference/json.h"
#include "reference/pack.h"

namespace heed::explore_test {
namespace {

using Json = nlohmann::json;

Json run(explore::Explorer& explorer, const Json& request) {
  return Json::parse(explore::answer_to(explorer, "/api/run", request.dump(), kGoOn));
}

/// The numbers of a map, from its pack.
std::vector<double> numbers_of(const explore::Explorer& explorer, const Json& answer, const Json& map) {
  EXPECT_EQ(answer["data"]["bits"], 16);
  const double largest = map["largest"];
  std::vector<double> numbers;
  for (const int code : codes_of_pack(explorer.chunk(answer["run"], map["pack"]).value(), 16))
    numbers.push_back(code * largest / 65535);
  return numbers;
}

/// Row 0 of a tensor of a fixture.
std::vector<double> expected_row(const std::string& fixture, const std::string& name) {
  const auto file = SafetensorsFile::open(kFixtures / fixture / "expected.safetensors");
  return slice(file.get(name), 0, 0, 1).to(DType::f64).to_vector<double>();
}
std::vector<std::int64_t> input_row(const std::string& fixture, const std::string& name) {
  const auto file = SafetensorsFile::open(kFixtures / fixture / "inputs.safetensors");
  return slice(file.get(name), 0, 0, 1).to_vector<std::int64_t>();
}

/// Each candidate's logit against row-major logits [.., vocabulary].
void expect_logits(const Json& predictions, const std::vector<double>& logits, std::size_t vocabulary) {
  for (std::size_t row = 0; row < predictions.size(); ++row) {
    const std::size_t position =
        predictions[row]["position"].is_null() ? row : predictions[row]["position"].get<std::size_t>();
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(position * vocabulary);
    double sum = 0;
    for (std::size_t i = 0; i < vocabulary; ++i) sum += std::exp(begin[static_cast<std::ptrdiff_t>(i)]);
    std::vector<double> sorted(begin, begin + static_cast<std::ptrdiff_t>(vocabulary));
    std::sort(sorted.rbegin(), sorted.rend());
    std::size_t rank = 0;
    for (const Json& candidate : predictions[row]["candidates"]) {
      const double logit = begin[candidate["id"].get<std::ptrdiff_t>()];
      EXPECT_NEAR(candidate["logit"], logit, 1e-4);
      EXPECT_NEAR(logit, sorted[rank++], 1e-4) << "the most probable ones come first";
      EXPECT_NEAR(candidate["probability"], std::exp(logit) / sum, 1e-5);
    }
  }
}

/// Every map of a kind against the attention of a fixture, `name`.LAYER [1, H, T, S].
void expect_maps(const explore::Explorer& explorer, const Json& answer, const std::string& kind,
                 const std::string& fixture, const std::string& name) {
  std::size_t compared = 0;
  for (const Json& of_kind : answer["data"]["kinds"]) {
    if (of_kind["kind"] != kind) continue;
    for (const Json& map : of_kind["maps"]) {
      if (map["measure"] != "weights") continue;
      const std::vector<double> found = numbers_of(explorer, answer, map);
      const std::vector<double> layer =
          expected_row(fixture, name + "." + std::to_string(map["layer"].get<int>()));
      const std::size_t first = map["head"].get<std::size_t>() * found.size();
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], layer[first + i], 3e-5);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 8u) << kind;
}

TEST(Explorer, DecoderEqualsPyTorch) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const std::vector<std::int64_t> ids = input_row("decoders/gpt2", "input_ids");
  const Json answer = run(explorer, {{"model", 0}, {"ids", ids}, {"candidates", 5}});
  EXPECT_EQ(answer["ids"], Json(ids));
  EXPECT_TRUE(answer["target_ids"].is_null());
  ASSERT_EQ(answer["predictions"].size(), ids.size());
  EXPECT_EQ(answer["predictions"][3]["token"], "t383");
  EXPECT_EQ(answer["predictions"][3]["of"], "decoder");
  EXPECT_EQ(answer["predictions"][3]["candidates"].size(), 5u);
  EXPECT_FALSE(answer["predictions"][3]["candidates"][0].contains("change"));
  expect_logits(answer["predictions"], expected_row("decoders/gpt2", "logits"), 512);
  expect_maps(explorer, answer, "decoder", "decoders/gpt2", "attentions");
  EXPECT_EQ(run(explorer, {{"model", 0}, {"text", "91 2 78"}})["ids"], Json({91, 2, 78}));
  EXPECT_EQ(run(explorer, {{"model", 0}, {"text", ""}})["ids"], Json::array({0}))
      << "the token that begins texts";
}

TEST(Explorer, EncoderDecoderEqualsPyTorch) {
  explore::Explorer explorer = explorer_of(sample_encoder_decoder());
  const Json answer = run(explorer, {{"model", 0},
                                     {"ids", input_row("marian", "input_ids")},
                                     {"target_ids", input_row("marian", "labels")},
                                     {"candidates", 3}});
  EXPECT_EQ(answer["target_ids"], Json(input_row("marian", "labels")));
  ASSERT_EQ(answer["predictions"].size(), 12u) << "a finished target";
  expect_logits(answer["predictions"], expected_row("marian", "logits"), 541);
  expect_maps(explorer, answer, "cross", "marian", "cross_attentions");
  expect_maps(explorer, answer, "encoder", "marian", "encoder_attentions");
  expect_maps(explorer, answer, "decoder", "marian", "decoder_attentions");
}

TEST(Explorer, EncoderDecoderStepsThroughItsOwnOutput) {
  explore::Explorer explorer = explorer_of(sample_encoder_decoder());
  const std::vector<std::int64_t> source = input_row("marian", "input_ids");
  const Json whole = run(explorer, {{"model", 0}, {"ids", source}, {"max_new_tokens", 6}});
  ASSERT_LE(whole["target_ids"].size(), 6u);
  const Json again = run(explorer, {{"model", 0}, {"ids", source}, {"max_new_tokens", 6}});
  EXPECT_EQ(again["target_ids"], whole["target_ids"]) << "kept";
  EXPECT_LE(run(explorer, {{"model", 0}, {"ids", source}, {"max_new_tokens", 2}})["target_ids"].size(), 2u);
  std::vector<std::int64_t> target;
  for (const Json& id : whole["target_ids"]) {  // greedy: each step's best candidate
    const Json step =
        run(explorer, {{"model", 0}, {"ids", source}, {"target_ids", target}, {"candidates", 1}});
    ASSERT_EQ(step["predictions"].size(), target.size() + 1);
    if (target.size() + 1 < 6) {  // the last may be forced
      EXPECT_EQ(step["predictions"].back()["candidates"][0]["id"], id);
    }
    target.push_back(id);
  }
}

TEST(Explorer, NormsOfValuesEqualTransformedValues) {
  for (const char* name : {"decoders/gpt2", "decoders/llama", "marian", "encoders/bert-tag"}) {
    const auto model = load_model(kFixtures / name);
    TensorMap inputs{{"input_ids", Tensor::from(std::vector<std::int64_t>{5, 6, 7}, {1, 3})}};
    const bool both = std::string(name) == "marian";
    if (both) inputs["decoder_input_ids"] = Tensor::from(std::vector<std::int64_t>{540, 6}, {1, 2});
    RecordOptions options{attention_kinds(*model)};
    options.value_norms = true;
    const AttentionRecord record = record_attention(*model, inputs, options);
    explore::Explorer explorer = explorer_of(sample(name));
    Json request{{"model", 0}, {"ids", {5, 6, 7}}};
    if (both) request["target_ids"] = {6};
    const Json answer = run(explorer, request);
    std::size_t compared = 0;
    for (const Json& kind : answer["data"]["kinds"]) {
      for (const Json& map : kind["maps"]) {
        for (const RecordedLayer& layer : record.layers) {
          if (map["measure"] != "weights" || layer.kind != kind["kind"] || layer.layer != map["layer"])
            continue;
          const std::vector<float> norms = layer.value_norms.to_vector<float>();
          const std::size_t first = map["head"].get<std::size_t>() * map["norms"].size();
          for (std::size_t i = 0; i < map["norms"].size(); ++i)
            EXPECT_NEAR(map["norms"][i], norms[first + i], 6e-4 * static_cast<double>(norms[first + i]));
          ++compared;
        }
      }
    }
    EXPECT_EQ(compared, both ? 24u : 8u) << name;
  }
}

TEST(Explorer, EncodersEqualPyTorch) {
  {
    explore::Explorer explorer = explorer_of(sample("encoders/bert-tag"));
    const Json answer = run(explorer, {{"model", 0}, {"ids", input_row("encoders/bert-tag", "input_ids")}});
    ASSERT_EQ(answer["predictions"].size(), 14u);
    expect_logits(answer["predictions"], expected_row("encoders/bert-tag", "logits"), 5);
    expect_maps(explorer, answer, "encoder", "encoders/bert-tag", "attentions");
  }
  {
    explore::Explorer explorer = explorer_of(sample("encoders/bert-mlm", true, 4));
    const Json answer =
        run(explorer,
            {{"model", 0}, {"text", "414 4 660 403 40 177 533"}, {"pair", "4 197 380 181 445 407 385"}});
    EXPECT_EQ(answer["ids"], Json(input_row("encoders/bert-mlm", "input_ids")));
    ASSERT_EQ(answer["predictions"].size(), 2u) << "one for each mask";
    EXPECT_EQ(answer["predictions"][1]["position"], 9);
    expect_logits(answer["predictions"], expected_row("encoders/bert-mlm", "logits"), 700);
    expect_maps(explorer, answer, "encoder", "encoders/bert-mlm", "attentions");
    EXPECT_EQ(run(explorer, {{"model", 0}, {"text", "414"}})["predictions"], Json::array());
  }
  {
    explore::Explorer explorer = explorer_of(sample("encoders/bert-classify", true));
    const Json answer = run(
        explorer, {{"model", 0}, {"text", "681 562 168 207 11 156"}, {"pair", "466 661 179 21 375 181 595"}});
    ASSERT_EQ(answer["predictions"].size(), 1u);
    EXPECT_TRUE(answer["predictions"][0]["token"].is_null());
    EXPECT_EQ(answer["predictions"][0]["candidates"].size(), 3u);
    expect_logits(answer["predictions"], expected_row("encoders/bert-classify", "logits"), 3);
  }
  {
    explore::Explorer explorer = explorer_of(sample("encoders/bert-qa", true));
    const Json answer = run(explorer, {{"model", 0},
                                       {"text", "681 562 168 207 11 156 167 16"},
                                       {"pair", "426 685 533 534 470 379 533 532"}});
    ASSERT_EQ(answer["predictions"].size(), 2u);
    EXPECT_EQ(answer["predictions"][1]["of"], "end");
    std::vector<double> logits = expected_row("encoders/bert-qa", "start_logits");
    const std::vector<double> ends = expected_row("encoders/bert-qa", "end_logits");
    logits.insert(logits.end(), ends.begin(), ends.end());
    expect_logits(answer["predictions"], logits, 19);
  }
  explore::Explorer bare = explorer_of(sample("encoders/bert", true));
  EXPECT_EQ(run(bare, {{"model", 0}, {"text", "5 6"}})["predictions"], Json::array());
}

TEST(Explorer, PatchedHeadsEqualHooksOfTransformers) {
  const Json expected = read_json(kFixtures / "analysis" / "gpt2.json");
  explore::Explorer explorer = explorer_of(sample_decoder());
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 4; ++head) {
      const Json answer = run(explorer, {{"model", 0},
                                         {"ids", expected["corrupted"]},
                                         {"candidates", 512},
                                         {"changes",
                                          {{{"kind", "decoder"},
                                            {"layer", layer},
                                            {"head", head},
                                            {"patch", {{"ids", expected["clean"]}}}}}}});
      std::map<std::int64_t, double> logits, changes;
      for (const Json& one : answer["predictions"].back()["candidates"]) {
        logits[one["id"]] = one["logit"];
        changes[one["id"]] = one["change"];
      }
      const std::int64_t token = expected["token"], other = expected["other"];
      EXPECT_NEAR(logits[token] - logits[other], expected["patched"]["heads"][layer][head].get<double>(),
                  1e-4);
      EXPECT_NEAR(logits[token] - changes[token] - logits[other] + changes[other],
                  expected["metric"]["corrupted"].get<double>(), 1e-4);
    }
  }
}

/// Logits with a listener on one tap, set by hand: the whole value goes in, and head `head` is changed in
/// place.
std::vector<double> logits_with_head(const Model& model, const TensorMap& inputs, const std::string& tap,
                                     std::int64_t head, double factor) {
  const NoGradients guard;
  Taps taps;
  taps.listen(tap, [&](const std::string&, Tensor& value) {
    value = value.clone();
    const std::int64_t row = value.size(2) * value.size(3);
    float* numbers = value.data<float>() + head * row;
    for (std::int64_t i = 0; i < row; ++i) numbers[i] *= static_cast<float>(factor);
  });
  Context context{.taps = &taps};
  return model.forward(inputs, {}, context).at("logits").to(DType::f64).to_vector<double>();
}

TEST(Explorer, AblatedAndScaledHeadsEqualTaps) {
  const std::vector<std::int64_t> source = input_row("marian", "input_ids"),
                                  target = input_row("marian", "labels"),
                                  read = input_row("marian", "decoder_input_ids");
  const auto row = [](const std::vector<std::int64_t>& ids) {
    return Tensor::from(ids, {1, std::ssize(ids)});
  };
  const auto model = load_model(kFixtures / "marian");
  explore::Explorer explorer = explorer_of(sample_encoder_decoder());
  const std::vector<double> plain = expected_row("marian", "logits");
  for (const auto& [kind, part] :
       std::map<std::string, std::string>{{"cross", "decoder.layers.1.cross_attn"},
                                          {"encoder", "encoder.layers.1.self_attn"},
                                          {"decoder", "decoder.layers.1.self_attn"}}) {
    for (const double factor : {0.0, 0.5, -2.0}) {
      const Json answer =
          run(explorer, {{"model", 0},
                         {"ids", source},
                         {"target_ids", target},
                         {"changes", {{{"kind", kind}, {"layer", 1}, {"head", 2}, {"factor", factor}}}}});
      EXPECT_EQ(answer["changes"], Json({{{"kind", kind}, {"layer", 1}, {"head", 2}, {"factor", factor}}}));
      const std::vector<double> logits = logits_with_head(
          *model, {{"input_ids", row(source)}, {"decoder_input_ids", row(read)}}, part + ".heads", 2, factor);
      expect_logits(answer["predictions"], logits, 541);
      const Json& best = answer["predictions"][4]["candidates"][0];
      const std::size_t at = 4 * 541 + best["id"].get<std::size_t>();
      EXPECT_NEAR(best["change"], logits[at] - plain[at], 1e-4);
      EXPECT_NE(best["change"], 0);
    }
  }
}

TEST(Explorer, AblationEqualsRunsWithoutEachHead) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const std::vector<std::int64_t> ids = input_row("decoders/gpt2", "input_ids");
  const auto model = load_model(kFixtures / "decoders/gpt2");
  const std::vector<double> plain = expected_row("decoders/gpt2", "logits");
  const TensorMap inputs{{"input_ids", Tensor::from(ids, {1, std::ssize(ids)})}};
  const Json request{{"model", 0}, {"ids", ids}, {"position", 9}, {"id", 331}};
  const Json changes =
      Json::parse(explore::answer_to(explorer, "/api/ablation", request.dump(), kGoOn))["change"];
  ASSERT_EQ(changes.size(), 8u);
  for (const Json& one : changes) {
    const std::string tap = "decoder.layers." + std::to_string(one["layer"].get<int>()) + ".self_attn.heads";
    EXPECT_NEAR(one["change"],
                logits_with_head(*model, inputs, tap, one["head"], 0)[9 * 512 + 331] - plain[9 * 512 + 331],
                1e-4);
  }
  Json layer = request;
  layer.update({{"kind", "decoder"}, {"layer", 1}});
  const Json part = Json::parse(explore::answer_to(explorer, "/api/ablation", layer.dump(), kGoOn))["change"];
  ASSERT_EQ(part.size(), 4u);
  EXPECT_EQ(part[0], changes[4]);
}

TEST(Explorer, ModelsAreDescribed) {
  explore::Explorer explorer =
      explorer_of(sample_decoder(), sample_encoder_decoder(), sample("encoders/bert-mlm", true, 4));
  const Json models = Json::parse(explorer.models())["models"];
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(
      models[0],
      Json::parse(
          R"({"index": 0, "name": "decoders/gpt2", "family": "gpt2", "kind": "decoder", "input": "text", "head": null, "labels": [], "examples": [], "steering": [],
    "layers": {"decoder": 2, "encoder": 0}, "heads": {"decoder": 4, "encoder": 0, "cross": 0}, "max_positions": 64,
    "takes_pair": false, "takes_target": false, "takes_labels": false, "mask_token": null})"));
  EXPECT_EQ(models[1]["heads"], Json({{"decoder", 4}, {"encoder", 4}, {"cross", 4}}));
  EXPECT_EQ(models[1]["takes_target"], true);
  EXPECT_EQ(models[2]["head"], "masked_lm");
  EXPECT_EQ(models[2]["mask_token"], "t4");
}

TEST(Explorer, PacksAreForgottenWithTheirRuns) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const Json answer = run(explorer, {{"model", 0}, {"text", "5 6 7"}, {"vectors", true}});
  EXPECT_TRUE(answer["data"]["kinds"][0].contains("vectors"));
  EXPECT_TRUE(explorer.chunk(answer["run"], 0).has_value());
  EXPECT_FALSE(explorer.chunk(answer["run"], 1000).has_value());
  EXPECT_FALSE(explorer.chunk(answer["run"].get<int>() + 1, 0).has_value());
}

TEST(Explorer, MapsThatAreShownComeWithTheAnswer) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  Json request{{"model", 0}, {"text", "5 6 7"}};
  EXPECT_FALSE(run(explorer, request).contains("shown"));
  const auto shown = [&](const Json& show) {
    request["show"] = show;
    const Json answer = run(explorer, request);
    for (const auto& [index, pack] : answer["shown"].items())
      EXPECT_EQ(pack, explorer.chunk(answer["run"], std::stoi(index)).value());
    return answer["shown"].size();
  };
  EXPECT_EQ(shown({{"kind", "decoder"}, {"layer", 1}, {"head", 3}}), 1u);
  EXPECT_EQ(shown({{"kind", "decoder"}, {"layer", 0}}), 4u);
  EXPECT_EQ(shown({{"kind", "cross"}, {"layer", 0}}), 0u);
}

TEST(Explorer, StopsWhenAsked) {
  explore::Explorer explorer = explorer_of(sample_decoder());
  const std::atomic<bool> stop{true};
  EXPECT_THROW(explore::answer_to(explorer, "/api/run", R"({"model": 0, "text": "5 6"})", stop), Canceled);
  EXPECT_THROW(explore::answer_to(explorer, "/api/ablation", R"({"model": 0, "text": "5 6", "id": 1})", stop),
               Canceled);
  EXPECT_EQ(run(explorer, {{"model", 0}, {"text", "5 6"}})["predictions"].size(), 2u);
}

}  // namespace
}  // namespace heed::explore_test
