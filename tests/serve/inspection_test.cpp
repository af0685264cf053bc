// Values of models in answers: equal to those of a forward pass; changed values and steering; and refusals.
#include "serve/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/models/steering.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

std::vector<serve::ServedModel> inspected() {
  std::vector<serve::ServedModel> models;
  models.push_back(served("encoders/bert-mlm"));
  models.push_back(chatting());
  return models;
}

// The values of one pass over ids.
TensorMap pass_over(const serve::ServedModel& model, const std::vector<std::int64_t>& ids,
                    const std::vector<std::string>& patterns) {
  const NoGradients guard;
  TensorMap values;
  Taps taps;
  for (const std::string& pattern : patterns)
    taps.listen(pattern, [&](const std::string& name, Tensor& value) { values[name] = value.clone(); });
  Context context{.taps = &taps};
  model.model().forward({{"input_ids", Tensor::from(ids, {1, std::ssize(ids)})}}, {}, context);
  return values;
}

void expect_values(const Json& shown, const Tensor& expected) {
  ASSERT_EQ(shown["shape"].get<std::vector<std::int64_t>>(),
            std::vector<std::int64_t>(expected.shape().begin(), expected.shape().end()));
  EXPECT_EQ(shown["dtype"], "F32");
  const std::vector<float> numbers = expected.contiguous().to_vector<float>();
  ASSERT_EQ(shown["data"].size(), numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_NEAR(shown["data"][i].get<float>(), numbers[i], 1e-4f);
}

const Json kContinued = {{"model", "chatting"}, {"prompt", "KING: "}, {"max_tokens", 4},
                         {"temperature", 0},    {"ignore_eos", true}, {"return_token_ids", true}};

Json with_heed(Json body, const Json& heed) {
  body["heed"] = heed;
  return body;
}

TEST(Inspection, ValuesOfGenerationsAreThoseOfOnePass) {
  Asking server(inspected());
  const serve::ServedModel model = chatting();
  const Json usual = server.post("/v1/completions", kContinued).json;
  const Answer answer = server.post(
      "/v1/completions", with_heed(kContinued, {{"taps", {"decoder.layers.0.out"}},
                                                {"attention", {{"layers", {1}}, {"heads", {1}}}}}));
  ASSERT_EQ(answer.status, 200) << answer.text;
  EXPECT_EQ(answer.json["choices"][0]["token_ids"], usual["choices"][0]["token_ids"]);
  std::vector<std::int64_t> ids = model.tokenizer().encode("KING: ").ids;
  for (const Json& id : usual["choices"][0]["token_ids"]) ids.push_back(id);
  ids.pop_back();  // never fed
  const TensorMap expected =
      pass_over(model, ids, {"decoder.layers.0.out", "decoder.layers.1.self_attn.weights"});
  const Json& values = answer.json["heed"];
  ASSERT_EQ(values.size(), 2u);
  expect_values(values["decoder.layers.0.out"], expected.at("decoder.layers.0.out"));
  const Json& weights = values["decoder.layers.1.self_attn.weights[heads=1]"];
  const auto size = std::ssize(ids);
  ASSERT_EQ(weights["shape"], Json({1, 1, size, size}));
  const std::vector<float> all = expected.at("decoder.layers.1.self_attn.weights").to_vector<float>();
  for (std::int64_t i = 0; i < size * size; ++i)
    EXPECT_NEAR(weights["data"][static_cast<std::size_t>(i)].get<float>(),
                all[static_cast<std::size_t>(size * size + i)], 1e-4f);
  Json chat =
      with_heed({{"model", "chatting"}, {"max_tokens", 3}, {"temperature", 0}}, {{"taps", {"logits"}}});
  chat["messages"] = {{{"role", "user"}, {"content", "Who?"}}};
  const Answer chatted = server.post("/v1/chat/completions", chat);
  ASSERT_EQ(chatted.status, 200) << chatted.text;
  EXPECT_EQ(chatted.json["heed"]["logits"]["shape"][0], chatted.json["usage"]["completion_tokens"]);
}

TEST(Inspection, ValuesOfVectors) {
  Asking server(inspected());
  const serve::ServedModel model = served("encoders/bert-mlm");
  const Json usual = server.post("/embed", {{"inputs", "a b c"}}).json;
  const Json heed = {{"taps", {"encoder.layers.1.out"}}};
  const Json answer = server.post("/embed", {{"inputs", "a b c"}, {"heed", heed}}).json;
  EXPECT_EQ(answer["embeddings"], usual);
  const Tensor expected = pass_over(model, model.tokenizer().encode("a b c").ids, {"encoder.layers.1.out"})
                              .at("encoder.layers.1.out");
  expect_values(answer["heed"]["encoder.layers.1.out"], expected);
  const Json openai = server.post("/v1/embeddings", {{"input", {"a b c"}}, {"heed", heed}}).json;
  EXPECT_EQ(openai["data"][0]["embedding"], usual[0]);
  EXPECT_EQ(openai["heed"], answer["heed"]);

  server::HttpRequest request =
      request_of("POST", "/embed", json_text(Json{{"inputs", "a b c"}, {"heed", heed}}));
  request.accept = "application/vnd.safetensors";
  const Answer bytes = server.ask(request);
  ASSERT_EQ(bytes.status, 200);
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "a.safetensors", std::ios::binary) << bytes.text;
  const SafetensorsFile file = SafetensorsFile::open(folder.path() / "a.safetensors");
  ASSERT_EQ(file.tensors().size(), 1u);
  const std::vector<float> got = file.get("encoder.layers.1.out").to_vector<float>();
  const std::vector<float> wanted = expected.contiguous().to_vector<float>();
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-4f);
  EXPECT_EQ(parse_json(file.metadata().at("answer"), "answer")["embeddings"], usual);
}

TEST(Inspection, ReplacedValuesChangeTheAnswer) {
  Asking server(inspected());
  const Json usual = server.post("/v1/completions", kContinued).json["choices"];
  const auto choices = [&](const Json& replace) {
    return server.post("/v1/completions", with_heed(kContinued, {{"replace", replace}})).json["choices"];
  };
  EXPECT_EQ(choices({{"decoder.layers.*.out", 1.0}}), usual);
  EXPECT_NE(choices({{"decoder.layers.*.self_attn.heads", "zeros"}}), usual);
  const Json zeros =
      server
          .post("/embed",
                {{"inputs", "a"},
                 {"heed",
                  {{"replace", {{"encoder.layers.0.out", "zeros"}}}, {"taps", {"encoder.layers.0.out"}}}}})
          .json["heed"]["encoder.layers.0.out"]["data"];
  for (const Json& number : zeros) EXPECT_EQ(number, 0.0);
}

TEST(Inspection, SteersAsASteeredModelDoes) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "mood.safetensors";
  std::vector<serve::ServedModel> models = inspected();
  const serve::ServedModel& decoder = models.back();
  const std::int64_t width = pass_over(decoder, decoder.tokenizer().encode("a").ids, {"decoder.layers.0.out"})
                                 .at("decoder.layers.0.out")
                                 .size(2);
  std::vector<float> direction(static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < direction.size(); ++i) direction[i] = i % 2 == 0 ? 1.0f : -1.0f;
  save_safetensors(file, {{"decoder.layers.0.out", Tensor::from(direction, {width})}}, {});
  std::vector<serve::ServedModel*> offered;
  for (serve::ServedModel& model : models) offered.push_back(&model);
  serve::offer_steering(offered, "mood", file);
  EXPECT_TRUE(models.front().steering.empty());
  EXPECT_ERROR(serve::offer_steering(offered, "none", folder.path() / "none.safetensors"),
               "none.safetensors");

  const std::unique_ptr<Model> steered = load_model(shakespeare().opened.directory());
  steer_model(*steered, {{file, 3.0, {}}});
  std::vector<std::int64_t> ids = decoder.tokenizer().encode("KING: ").ids;
  const TensorMap outputs = steered->forward({{"input_ids", Tensor::from(ids, {1, std::ssize(ids)})}}, {});
  const std::vector<float> expected = outputs.at("logits").to_vector<float>();

  Asking server(std::move(models));
  const Json usual = server.post("/v1/completions", kContinued).json["choices"];
  const Json steering = {{"steering", {{{"name", "mood"}, {"strength", 3.0}}}}};
  Json heed = steering;
  heed["taps"] = {"logits"};
  const Json logits =
      server.post("/v1/completions", with_heed(kContinued, heed)).json["heed"]["logits"]["data"];
  const std::size_t vocabulary = expected.size() / ids.size();
  for (std::size_t i = 0; i < vocabulary; ++i)  // of the first step
    EXPECT_NEAR(logits[i].get<float>(), expected[expected.size() - vocabulary + i], 1e-4f);
  Json streamed = with_heed(kContinued, steering);
  streamed["stream"] = true;
  EXPECT_EQ(server.post("/v1/completions", streamed).status, 200);
  EXPECT_EQ(server.post("/v1/completions", kContinued).json["choices"], usual);  // the model is as it was
}

TEST(Inspection, WrongRequestsAreRefused) {
  Asking server(inspected());
  struct Case {
    Json heed;
    int status;
    const char* told;
  };
  for (const Case& one : std::vector<Case>{
           {5, 400, "heed"},
           {{{"tap", "logits"}}, 400, "expected taps, attention, steering and replace"},
           {{{"taps", {5}}}, 400, "taps"},
           {{{"taps", {"a[b]"}}}, 400, "NAME[heads"},
           {{{"taps", {"decoder.layers.9.out"}}}, 400, "matches decoder.layers.9.out"},
           {{{"attention", {{"layers", {99}}}}}, 400, "heed.attention.layers.0: expected an integer from 0"},
           {{{"attention", {{"heads", {99}}}}}, 400, "99"},
           {{{"attention", {{"layers", "x"}}}}, 400, "\"param\":\"heed.attention.layers\""},
           {{{"replace", {{"logits", "ones"}}}}, 400, "zeros"},
           {{{"replace", {{"logits[queries=1]", 0}}}}, 400, "heads alone"},
           {{{"steering", {{{"name", "mood"}}}}}, 400, "--steer"},
           {{{"steering", {1}}}, 400, "steering"}}) {
    const Answer answer = server.post("/v1/completions", with_heed(kContinued, one.heed));
    EXPECT_EQ(answer.status, one.status) << answer.text;
    EXPECT_THAT(answer.text, HasSubstr(one.told));
  }
  Json streamed = with_heed(kContinued, {{"replace", {{"decoder.layers.9.out", 0}}}});
  streamed["stream"] = true;
  EXPECT_THAT(server.post("/v1/completions", streamed).text, HasSubstr("matches decoder.layers.9.out"));
  const Json taps = {{"taps", {"logits"}}};
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Json>>{{"stream", true}, {"n", 2}, {"prompt", {"a", "b"}}}) {
    Json body = with_heed(kContinued, taps);
    body[key] = value;
    EXPECT_THAT(server.post("/v1/completions", body).text, HasSubstr("one prompt, n of 1, and no stream"));
  }
  EXPECT_EQ(server.post("/embed", {{"inputs", {"a", "b"}}, {"heed", taps}}).status, 400);
  Json longer = with_heed(kContinued, {{"taps", {"*"}}});
  longer["prompt"] = std::string(240, 'a');
  const Answer many = server.post("/v1/completions", longer);
  EXPECT_EQ(many.status, 413) << many.text.substr(0, 200);
  EXPECT_THAT(many.text, HasSubstr("at most 4000000 numbers"));
}

}  // namespace
}  // namespace heed::serve_test
