// The routes of Text Embeddings Inference: shapes, values as the library's own functions give, and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "heed/tasks/classify.h"
#include "reference/temporary_folder.h"
#include "serve/asking.h"
#include "serve/scheduler/scheduler.h"

namespace heed::serve_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<serve::ServedModel> models_of(std::initializer_list<const char*> fixtures) {
  std::vector<serve::ServedModel> models;
  for (const char* fixture : fixtures) models.push_back(served(fixture));
  return models;
}

const std::vector<std::string> kTexts = {"a b c", "x", "the black cat drinks milk", "b"};

std::vector<std::vector<float>> rows(const Tensor& tensor) {
  const std::vector<float> numbers = tensor.to_vector<float>();
  const std::size_t width = static_cast<std::size_t>(tensor.size(1));
  std::vector<std::vector<float>> all;
  for (std::size_t at = 0; at < numbers.size(); at += width)
    all.emplace_back(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                     numbers.begin() + static_cast<std::ptrdiff_t>(at + width));
  return all;
}

TEST(Tei, VectorsAreThoseOfTheLibraryToTheBit) {
  const serve::ServedModel model = served("encoders/bert-mlm");
  Asking server(models_of({"encoders/bert-mlm"}));
  const EmbeddingRecipe recipe = load_embedding_recipe(model.opened.directory(), model.model());
  const auto raw = rows(embed(model.model(), model.tokenizer(), kTexts, recipe));
  const Answer answer = server.post("/embed", {{"inputs", kTexts}, {"normalize", false}});
  EXPECT_EQ(answer.json.get<std::vector<std::vector<float>>>(), raw);
  const Answer unit = server.post("/embed", {{"inputs", kTexts.front()}});
  double squares = 0;
  for (const Json& x : unit.json.at(0)) squares += x.get<double>() * x.get<double>();
  EXPECT_NEAR(squares, 1, 1e-6);
  const Answer ids =
      server.post("/embed", {{"inputs", model.tokenizer().encode(kTexts.front()).ids}, {"normalize", false}});
  EXPECT_EQ(ids.json.get<std::vector<std::vector<float>>>().at(0), raw.front());
  const Answer cut = server.post("/embed", {{"inputs", kTexts}, {"dimensions", 3}, {"normalize", false}});
  EXPECT_EQ(cut.json.at(2).get<std::vector<float>>(), std::vector<float>(raw[2].begin(), raw[2].begin() + 3));
  EXPECT_EQ(server.post("/embed", {{"inputs", "a"}, {"dimensions", 1000}}).status, 400);
}

TEST(Tei, ABatchOfManyRequestsGivesWhatEachGetsAlone) {
  serve::SchedulerLimits limits;
  limits.batch_tokens = 40;
  Asking server(models_of({"encoders/bert-mlm"}), {}, limits);
  std::vector<std::string> alone;
  for (const std::string& text : kTexts) alone.push_back(server.post("/embed", {{"inputs", text}}).text);
  std::vector<std::shared_ptr<Received>> together;
  for (int i = 0; i < 40; ++i) {
    const Json body = {{"inputs", kTexts[static_cast<std::size_t>(i) % kTexts.size()]}};
    together.push_back(server.begin(request_of("POST", "/embed", json_text(body))));
  }
  for (std::size_t i = 0; i < together.size(); ++i)
    EXPECT_EQ(together[i]->response().body, alone[i % kTexts.size()]) << i;
}

TEST(Tei, VectorsOfTokens) {
  const serve::ServedModel model = served("encoders/bert-mlm");
  Asking server(models_of({"encoders/bert-mlm"}));
  const Answer answer = server.post("/embed_all", {{"inputs", kTexts}});
  const EmbeddingRecipe recipe = load_embedding_recipe(model.opened.directory(), model.model());
  const auto expected = embed_tokens(model.model(), model.tokenizer(), kTexts, recipe);
  ASSERT_EQ(answer.json.size(), expected.size()) << answer.text;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(answer.json[i].get<std::vector<std::vector<float>>>(), rows(expected[i].vectors)) << i;
}

TEST(Tei, AnswersTellHowManyTextsWereCut) {
  Asking server(models_of({"encoders/bert-classify"}));
  const auto told = [&](const char* path, const Json& inputs) {
    const Answer answer = server.post(path, {{"inputs", inputs}});
    EXPECT_EQ(answer.status, 200) << answer.text;
    return answer.header("X-Truncated-Inputs");
  };
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a ";
  const std::vector<int> ids(100, 1);
  EXPECT_EQ(told("/embed", "a b"), "");
  EXPECT_EQ(told("/embed", text), "1");
  EXPECT_EQ(told("/embed", {text, "a", text}), "2");
  EXPECT_EQ(told("/embed", ids), "1");
  EXPECT_EQ(told("/predict", text), "1");
  EXPECT_EQ(told("/predict", "a"), "");
}

// max over the tokens of log(1 + relu(logit)), of the logits of the whole forward pass.
TEST(Tei, SparseVectorsAreThoseOfSplade) {
  const serve::ServedModel model = served("encoders/bert-mlm");
  Asking server(models_of({"encoders/bert-mlm"}));
  const Answer answer = server.post("/embed_sparse", {{"inputs", kTexts}});
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const std::vector<std::int64_t> ids = model.tokenizer().encode(kTexts[i]).ids;
    const auto size = static_cast<std::int64_t>(ids.size());
    const Tensor logits = model.model().forward({{"input_ids", Tensor::from(ids, {1, size})}}).at("logits");
    const std::vector<float> numbers = logits.to_vector<float>();
    const std::size_t vocabulary = numbers.size() / ids.size();
    std::vector<double> weights(vocabulary, 0.0);
    for (std::size_t at = 0; at < numbers.size(); ++at)
      weights[at % vocabulary] =
          std::max(weights[at % vocabulary], std::log(1 + std::max(0.0, static_cast<double>(numbers[at]))));
    std::vector<double> found(vocabulary, 0.0);
    for (const Json& one : answer.json.at(i))
      found[one["index"].get<std::size_t>()] = one["value"].get<double>();
    for (std::size_t v = 0; v < vocabulary; ++v) EXPECT_NEAR(found[v], weights[v], 1e-5) << i << " " << v;
  }
}

TEST(Tei, LabelsAreThoseOfClassify) {
  const serve::ServedModel model = served("encoders/bert-classify");
  Asking server(models_of({"encoders/bert-classify"}));
  const std::vector<TextPair> pairs = {{"a b c"}, {"x", "a b"}};
  const auto expected = classify(*model.encoder(), model.tokenizer(), pairs, 0);
  const Answer batch =
      server.post("/predict", {{"inputs", Json::array({Json::array({"a b c"}), {"x", "a b"}})}});
  const Answer single = server.post("/predict", {{"inputs", "a b c"}});
  const Answer pair = server.post("/predict", {{"inputs", {"x", "a b"}}});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      EXPECT_EQ(batch.json.at(i).at(k)["label"], "LABEL_" + std::to_string(expected[i][k].index));
      EXPECT_NEAR(batch.json.at(i).at(k)["score"].get<double>(), expected[i][k].score, 1e-6);
    }
  }
  EXPECT_EQ(single.json, batch.json.at(0));
  EXPECT_EQ(pair.json, batch.json.at(1));
  const Answer raw = server.post("/predict", {{"inputs", "a b c"}, {"raw_scores", true}});
  double sum = 0;
  for (const Json& one : raw.json) sum += std::exp(one["score"].get<double>());
  EXPECT_NEAR(std::exp(raw.json.at(0)["score"].get<double>()) / sum, expected[0][0].score, 1e-6);
}

TEST(Tei, RanksInBothForms) {
  Asking server(models_of({"encoders/xlm-roberta-cross-encoder"}));
  const Json texts = {"a b", "c d e f", "g"};
  const Answer tei = server.post("/rerank", {{"query", "b"}, {"texts", texts}, {"return_text", true}});
  ASSERT_EQ(tei.json.size(), 3u) << tei.text;
  for (std::size_t i = 0; i + 1 < 3; ++i)
    EXPECT_GE(tei.json[i]["score"].get<double>(), tei.json[i + 1]["score"].get<double>());
  for (const Json& one : tei.json) EXPECT_EQ(one["text"], texts[one["index"].get<std::size_t>()]);
  const Answer raw = server.post("/rerank", {{"query", "b"}, {"texts", texts}, {"raw_scores", true}});
  EXPECT_NEAR(1 / (1 + std::exp(-raw.json[0]["score"].get<double>())), tei.json[0]["score"].get<double>(),
              1e-6);
  for (const char* path : {"/rerank", "/v1/rerank", "/v2/rerank", "/reranking"}) {
    const Answer jina = server.post(path, {{"query", "b"},
                                           {"documents", {"a b", {{"text", "c d e f"}}, "g"}},
                                           {"top_n", 2},
                                           {"return_documents", true}});
    ASSERT_EQ(jina.json["results"].size(), 2u) << jina.text;
    EXPECT_EQ(jina.json["results"][0]["relevance_score"], tei.json[0]["score"]);
    EXPECT_EQ(jina.json["results"][0]["index"], tei.json[0]["index"]);
    EXPECT_EQ(jina.json["results"][0]["document"]["text"], tei.json[0]["text"]);
    EXPECT_GT(jina.json["usage"]["total_tokens"], 6);
  }
}

// As a client sends to the address of a server of one model.
TEST(Tei, TheRootAnswersAsTheFirstModelDoes) {
  Asking vectors(models_of({"encoders/bert-mlm", "encoders/bert-classify"}));
  EXPECT_EQ(vectors.post("/", {{"inputs", "a b"}}).json, vectors.post("/embed", {{"inputs", "a b"}}).json);
  Asking labels(models_of({"encoders/bert-classify"}));
  const Json all = labels.post("/predict", {{"inputs", "a b"}}).json;
  EXPECT_EQ(labels.post("/", {{"inputs", "a b"}}).json, Json::array({all}));
  EXPECT_EQ(labels.post("/", {{"inputs", "a b"}, {"parameters", {{"top_k", 1}}}}).json[0],
            Json::array({all[0]}));
  EXPECT_EQ(labels.post("/", {{"inputs", "a b"}, {"parameters", {{"function_to_apply", "none"}}}}).status,
            400);
  const Json similar = {{"inputs", {{"source_sentence", "a b"}, {"sentences", {"b", "a"}}}}};
  EXPECT_EQ(vectors.post("/", similar).json, vectors.post("/similarity", similar).json);
  Asking ranks(models_of({"encoders/xlm-roberta-cross-encoder"}));
  const Json body = {{"query", "b"}, {"texts", {"a b", "g"}}};
  EXPECT_EQ(ranks.post("/", body).json, ranks.post("/rerank", body).json);
  EXPECT_EQ(ranks.post("/", body).json.size(), 2u);
  std::vector<serve::ServedModel> decoder;
  decoder.push_back(shakespeare());
  Asking texts(std::move(decoder));
  EXPECT_THAT(texts.post("/", {{"inputs", "a"}}).text, HasSubstr("/v1/completions"));
}

TEST(Tei, CutsTheEndOrTheBeginning) {
  const serve::ServedModel model = served("encoders/bert-mlm");
  Asking server(models_of({"encoders/bert-mlm", "encoders/bert-classify"}));
  std::string text = "x ";
  for (int i = 0; i < 100; ++i) text += "a ";
  text += "b";
  const EmbeddingRecipe recipe = load_embedding_recipe(model.opened.directory(), model.model());
  const auto encoded = encode_texts(model.model(), model.tokenizer(), std::span(&text, 1), recipe, {}, true);
  const std::int64_t b = model.tokenizer().encode("b", false).ids.front();
  ASSERT_EQ(encoded.front().ids.at(encoded.front().ids.size() - 2), b);
  const Answer left =
      server.post("/embed", {{"inputs", text}, {"normalize", false}, {"truncation_direction", "Left"}});
  EXPECT_EQ(left.json.get<std::vector<std::vector<float>>>(),
            rows(embed(model.model(), model.tokenizer(), encoded, recipe)));
  const Answer right = server.post("/embed", {{"inputs", text}, {"normalize", false}});
  EXPECT_NE(right.json, left.json);
  EXPECT_EQ(
      server.post("/embed", {{"inputs", text}, {"normalize", false}, {"truncation_direction", "Right"}}).json,
      right.json);
  const auto labels = [&](const char* side) {
    return server.post("/predict", {{"inputs", text}, {"truncation_direction", side}}).json;
  };
  EXPECT_NE(labels("Left"), labels("Right"));
  EXPECT_EQ(server.post("/embed", {{"inputs", "a"}, {"truncation_direction", "top"}}).status, 400);
}

TEST(Tei, SimilaritiesAreCosines) {
  Asking server(models_of({"encoders/bert-mlm"}));
  const Answer vectors = server.post("/embed", {{"inputs", kTexts}});
  const Answer answer = server.post(
      "/similarity", {{"inputs", {{"source_sentence", kTexts[0]}, {"sentences", {kTexts[1], kTexts[0]}}}}});
  ASSERT_EQ(answer.json.size(), 2u) << answer.text;
  double dot = 0;
  for (std::size_t d = 0; d < vectors.json[0].size(); ++d)
    dot += vectors.json[0][d].get<double>() * vectors.json[1][d].get<double>();
  EXPECT_NEAR(answer.json[0].get<double>(), dot, 1e-6);
  EXPECT_NEAR(answer.json[1].get<double>(), 1, 1e-6);
}

TEST(Tei, TokensInThreeForms) {
  const serve::ServedModel model = served("encoders/bert-mlm");
  Asking server(models_of({"encoders/bert-mlm"}));
  const Encoding encoding = model.tokenizer().encode("a b");
  const Answer tei = server.post("/tokenize", {{"inputs", "a b"}});
  ASSERT_EQ(tei.json.at(0).size(), encoding.ids.size()) << tei.text;
  EXPECT_EQ(tei.json[0][0],
            (Json{{"id", 2}, {"text", "[CLS]"}, {"special", true}, {"start", nullptr}, {"stop", nullptr}}));
  EXPECT_EQ(tei.json[0][1]["start"], 0);
  EXPECT_EQ(tei.json[0][2]["stop"], 3);
  EXPECT_EQ(server.post("/tokenize", {{"prompt", "a b"}}).json["tokens"], Json(encoding.ids));
  EXPECT_EQ(server.post("/tokenize", {{"content", "a b"}}).json["tokens"].size(), encoding.ids.size() - 2);
  EXPECT_EQ(server.post("/decode", {{"ids", encoding.ids}}).json, Json::array({"a b"}));
  EXPECT_EQ(server.post("/decode", {{"ids", {encoding.ids, encoding.ids}}}).json.size(), 2u);
  EXPECT_EQ(server.post("/detokenize", {{"tokens", encoding.ids}}).json["content"], "a b");
  EXPECT_EQ(server.post("/decode", {{"ids", {100000}}}).status, 400);
}

TEST(Tei, ErrorsHaveItsForm) {
  Asking server(models_of({"encoders/bert-mlm", "encoders/bert-classify"}));
  std::string longest;
  for (int i = 0; i < 100; ++i) longest += "a ";
  struct Case {
    const char* path;
    Json body;
    int status;
    const char* type;
  };
  for (const Case& one :
       std::vector<Case>{{"/embed", Json::object(), 400, "Validation"},
                         {"/embed", {{"inputs", 5}}, 400, "Validation"},
                         {"/embed", {{"inputs", {"a", 5}}}, 400, "Validation"},
                         {"/embed", {{"inputs", Json::array()}}, 400, "Empty"},
                         {"/embed", {{"inputs", ""}}, 400, "Empty"},
                         {"/embed", {{"inputs", {5, 100000}}}, 400, "Validation"},
                         {"/embed", {{"inputs", longest}, {"truncate", false}}, 413, "Validation"},
                         {"/embed", {{"inputs", "a"}, {"prompt_name", "query"}}, 400, "Validation"},
                         {"/embed", {{"inputs", std::vector<std::string>(5000, "a")}}, 413, "Validation"},
                         {"/predict", {{"inputs", {"a", "b", "c"}}}, 400, "Validation"},
                         {"/rerank", {{"query", "a"}, {"texts", {"b"}}}, 404, "Validation"},
                         {"/embed_sparse", {{"model", "bert-classify"}, {"inputs", "a"}}, 424, "Backend"}}) {
    const Answer answer = server.post(one.path, one.body);
    EXPECT_EQ(answer.status, one.status) << answer.text;
    EXPECT_EQ(answer.json["error_type"], one.type) << answer.text;
    EXPECT_TRUE(answer.json["error"].is_string()) << answer.text;
  }
  EXPECT_EQ(server.post("/embed", {{"inputs", longest}}).status, 200) << "it is cut";
}

TEST(Tei, InfoTellsTheLimits) {
  Asking server(models_of({"encoders/bert-classify"}));
  const Json info = server.get("/info").json;
  EXPECT_EQ(info["model_id"], "bert-classify");
  EXPECT_EQ(info["model_type"]["classifier"]["id2label"]["2"], "LABEL_2");
  EXPECT_EQ(info["max_input_length"], 40);
  const TemporaryFolder folder;  // whose recipe takes less than the model
  std::filesystem::copy(std::filesystem::path(HEED_FIXTURES) / "encoders/bert-mlm", folder.path(),
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(folder.path() / "pooling");
  for (const auto& [name, text] :
       {std::pair("sentence_bert_config.json", R"({"max_seq_length": 9})"),
        {"modules.json", R"([{"path": "", "type": "Transformer"}, {"path": "pooling", "type": "Pooling"}])"},
        {"pooling/config.json", R"({"pooling_mode_mean_tokens": true})"}})
    std::ofstream(folder.path() / name) << text;
  std::vector<serve::ServedModel> models = models_of({"encoders/bert-classify"});
  models.push_back(serve::serve_model("short one", load(folder.path().string())));
  Asking several(std::move(models));
  EXPECT_EQ(several.get("/info").json["model_id"], "bert-classify");
  EXPECT_EQ(several.get("/info?model=short%20one").json["max_input_length"], 9);
  EXPECT_EQ(several.get("/v1/models/short%20one").json["max_model_len"], 9);
  EXPECT_EQ(several.get("/info?model=none").status, 404);
}

// A model with prompts, in Cohere's form.
TEST(Cohere, VectorsByTypeAreThoseOfEmbed) {
  const TemporaryFolder folder;
  std::filesystem::copy(std::filesystem::path(HEED_FIXTURES) / "encoders/bert-mlm", folder.path(),
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(folder.path() / "1_Pooling");
  std::ofstream(folder.path() / "1_Pooling/config.json") << R"({"pooling_mode_mean_tokens": true})";
  std::ofstream(folder.path() / "modules.json")
      << R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
             {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])";
  std::ofstream(folder.path() / "config_sentence_transformers.json")
      << R"({"prompts": {"query": "a b ", "clustering": "x "}})";
  std::vector<serve::ServedModel> models;
  models.push_back(serve::serve_model("prompted", load(folder.path().string())));
  Asking server(std::move(models));
  const auto plain = [&](const Json& more) {
    Json body = {{"inputs", kTexts}};
    body.update(more);
    return server.post("/embed", body).json;
  };
  const auto typed = [&](const Json& more) {
    Json body = {{"texts", kTexts}};
    body.update(more);
    return server.post("/v2/embed", body);
  };
  const Answer answer = typed({{"input_type", "search_document"}});
  EXPECT_EQ(answer.json["embeddings"]["float"], plain(Json::object())) << answer.text;
  EXPECT_EQ(answer.json["texts"], Json(kTexts));
  EXPECT_GT(answer.json["meta"]["billed_units"]["input_tokens"].get<int>(), 0);
  EXPECT_EQ(typed({{"input_type", "search_query"}}).json["embeddings"]["float"],
            plain({{"prompt_name", "query"}}));
  EXPECT_EQ(typed({{"input_type", "clustering"}}).json["embeddings"]["float"],
            plain({{"prompt_name", "clustering"}}));
  const Json both = typed({{"embedding_types", {"float", "base64"}}, {"output_dimension", 3}}).json;
  EXPECT_EQ(both["embeddings"]["float"], plain({{"dimensions", 3}}));
  EXPECT_EQ(both["embeddings"]["base64"][0].get<std::string>().size(), 16u);  // of 12 bytes
  const Json object = {{"content", {{{"type", "text"}, {"text", kTexts[0]}}}}};
  EXPECT_EQ(server.post("/v2/embed", {{"inputs", Json::array({object})}}).json["embeddings"]["float"][0],
            plain(Json::object())[0]);
  for (const auto& [more, field] : std::vector<std::pair<Json, std::string>>{
           {{{"embedding_types", {"int8"}}}, "embedding_types"},
           {{{"input_type", "image"}}, "input_type"},
           {{{"output_dimension", 1000}}, "output_dimension"},
           {{{"texts", nullptr}}, "texts"},
           {{{"inputs", Json::array({object})}}, "texts"},
           {{{"texts", nullptr}, {"inputs", {{{"content", {{{"type", "image_url"}}}}}}}},
            "inputs.0.content.0.type"},
           {{{"images", {"data:"}}}, "images"},
           {{{"truncate", "MIDDLE"}}, "truncate"}}) {
    const Answer wrong = typed(more);
    EXPECT_EQ(wrong.status, 400) << more;
    EXPECT_THAT(wrong.text, HasSubstr("request: " + field + ": ")) << more;
  }
  std::string longest;
  for (int i = 0; i < 600; ++i) longest += "a ";
  EXPECT_EQ(typed({{"texts", {longest}}, {"truncate", "NONE"}}).status, 413);
  EXPECT_EQ(typed({{"texts", {longest}}}).json["embeddings"]["float"], plain({{"inputs", {longest}}}));
}

}  // namespace
}  // namespace heed::serve_test
