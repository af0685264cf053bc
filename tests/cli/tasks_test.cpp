// Compares fill, classify, answer, embed and evaluate --data on small encoders with the pipelines of
// transformers on the same texts (tests/fixtures/tasks/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "command.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const Json& expected() {
  static const Json all = read_json(std::string(HEED_FIXTURES) + "/tasks/expected.json");
  return all;
}

Words texts_of(const Json& rows) {
  Words texts;
  for (const Json& row : rows) texts.push_back(row.at("text"));
  return texts;
}

// A copy of an encoder with a changed config.json.
struct Changed {
  Folder folder;
  std::string path = folder.path().string();
  Changed(const std::string& name, const Json& changes) {
    fs::copy(encoder(name), folder.path(), fs::copy_options::recursive);
    Json config = read_json(path + "/config.json");
    config.update(changes);
    spill(path + "/config.json", config.dump());
  }
};

TEST(Fill, GivesThePipelinesTokens) {
  for (const auto& [name, rows] : expected().at("fill").items()) {
    const Result result = run_json({"fill", "--model", encoder(name), "--top-k", "3"}, texts_of(rows));
    ASSERT_EQ(result.status, 0) << result.err;
    const std::vector<Json> lines = json_lines(result.out);
    ASSERT_EQ(lines.size(), rows.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const Json& want = rows[i].at("result");
      const bool single = want[0].is_object();
      const Json masks = single ? Json::array({lines[i]}) : lines[i];
      const Json wanted = single ? Json::array({want}) : want;
      ASSERT_EQ(masks.size(), wanted.size());
      for (std::size_t m = 0; m < masks.size(); ++m) {
        ASSERT_EQ(masks[m].size(), wanted[m].size());
        for (std::size_t k = 0; k < masks[m].size(); ++k) {
          const Json &got = masks[m][k], &one = wanted[m][k];
          EXPECT_EQ(got.at("ids"), Json::array({one.at("token")}));
          EXPECT_EQ(got.at("text"), one.at("token_str"));
          EXPECT_EQ(got.at("sequence"), one.at("sequence"));
          const double probability = one.at("score");
          EXPECT_NEAR(got.at("probability"), probability, 1e-5);
          EXPECT_NEAR(got.at("score"), std::log(probability), 1e-4);
        }
      }
    }
  }
}

TEST(Fill, ReadsLinesAndTellsWhatIsWrong) {
  const Words words{"fill", "--model", encoder("bert-mlm"), "--top-k", "2"};
  const std::string result = output_of(words, "The [MASK] sat.\n[MASK] [MASK]\n");
  ASSERT_EQ(lines(result).size(), 2u);
  EXPECT_THAT(lines(result)[1], HasSubstr("\t|\t"));
  const Result wrong = run(words, "The [MASK] sat.\nNothing here.\n");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.err, HasSubstr("line 2: no [MASK] in the text"));
  expect_error(1, {"fill", "--model", encoder("bert-classify"), "[MASK]"},
               "a bert sequence classifier cannot fill masks (use heed classify)");
  EXPECT_EQ(run({"fill", "--model", encoder("bert-mlm")}, "").out, "");
}

TEST(Classify, GivesThePipelinesScores) {
  for (const Json& row : expected().at("classify")) {
    const Changed model("bert-classify", row.at("config"));
    Words words{"classify", "--model", model.path, "--top-k", "0", row.at("text")};
    if (row.contains("pair")) words.insert(words.end(), {"--pair", row.at("pair")});
    const Result result = run_json(words, {});
    ASSERT_EQ(result.status, 0) << result.err;
    const Json got = Json::parse(result.out), &want = row.at("result");
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].at("label"), want[i].at("label"));
      EXPECT_NEAR(got[i].at("score"), want[i].at("score").get<double>(), 2e-5);
    }
  }
}

// A reranker's score of a pair is the sigmoid of its one logit, as CrossEncoder.predict gives it, unless the
// config says otherwise (now, and before sentence-transformers 4). The logits are those of
// transformers 5.12.1.
TEST(Classify, RemarksOnAnEmptyText) {
  const Result result = run({"classify", "--model", encoder("bert-classify"), "a text", ""});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(lines(result.out).size(), 2u);
  EXPECT_EQ(result.err, "heed: warning: line 2: an empty text, which gets a label like any other\n");
}

TEST(Classify, ScoresTheLinesOfAFileOfPairs) {
  const std::string pairs = "the cat\tthe mat\nno pair\nWhere?\tIn London.\n";
  const auto scores = [&](const Json& changes) {
    const Changed model("xlm-roberta-cross-encoder", changes);
    const Result result = run_json({"classify", "--model", model.path, "--tab-pairs"}, {}, pairs);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("line 2: expected two texts with a tab between them, got one"));
    const std::vector<Json> rows = json_lines(result.out);
    EXPECT_EQ(rows.size(), 3u);
    EXPECT_TRUE(rows.at(1).contains("error"));
    return std::pair(rows.at(0).at(0).at("score").get<double>(), rows.at(2).at(0).at("score").get<double>());
  };
  const std::string identity = "torch.nn.modules.linear.Identity";
  const auto sigmoid = scores(Json::object()),
             logit = scores({{"sentence_transformers", {{"activation_fn", identity}, {"version", "5.0"}}}}),
             older = scores({{"sbert_ce_default_activation_function", identity}});
  EXPECT_EQ(logit, older);
  EXPECT_NEAR(logit.first, 0.41083437, 1e-5);
  EXPECT_NEAR(logit.second, -0.21886525, 1e-5);
  EXPECT_NEAR(sigmoid.first, 0.60128796, 1e-5);
  EXPECT_NEAR(sigmoid.second, 0.44550103, 1e-5);
  const Words single{"classify", "--model", encoder("xlm-roberta-cross-encoder"), "Where?", "--pair"};
  const Json one = Json::parse(run_json(single, {"In London."}).out);
  EXPECT_EQ(one.at(0).at("score").get<double>(), sigmoid.second);
}

TEST(Classify, CutsWhatIsTooLongWithAWarning) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "the cat ";
  const Result result = run({"classify", "--model", encoder("bert-classify"), text, ""});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(lines(result.out).size(), 2u);
  EXPECT_THAT(result.err, HasSubstr("line 1: "));
  EXPECT_THAT(result.err, HasSubstr("more than the 40 tokens the model takes"));
}

// Labels and scores of transformers 5.24 (ViTImageProcessorPil, ViTForImageClassification) for the same
// files.
TEST(Classify, LabelsImageFilesAsTransformersDoes) {
  const std::string pictures = std::string(HEED_FIXTURES) + "/image/pictures/";
  const Words vit{"classify", "--model", HEED_FIXTURES "/vit"};
  const std::vector<std::tuple<std::string, std::string, double>> wanted{{"photo.jpg", "LABEL_3", 0.81338501},
                                                                         {"alpha.png", "LABEL_2", 0.36911061},
                                                                         {"cmyk.jpg", "LABEL_4", 0.55975986},
                                                                         {"wide.png", "LABEL_2", 0.61027122}};
  Words files;
  std::string listed;
  for (const auto& [name, label, score] : wanted) {
    files.push_back(pictures + name);
    listed += pictures + name + "\n";
  }
  for (const char* batch : {"1", "4096"}) {
    Words words = vit;
    words.insert(words.end(), {"--batch-tokens", batch});
    const Result result = run_json(words, files);
    ASSERT_EQ(result.status, 0) << result.err;
    const std::vector<Json> lines = json_lines(result.out);
    ASSERT_EQ(lines.size(), wanted.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i][0].at("label"), std::get<1>(wanted[i]));
      EXPECT_NEAR(lines[i][0].at("score"), std::get<2>(wanted[i]), 2e-6);
    }
    EXPECT_EQ(run_json(words, {}, listed).out, result.out);
  }
}

// The labels of the files are those of the test above: three right ones, and one wrong.
TEST(EvaluateData, ScoresAFolderOfImages) {
  const Folder folder;
  for (const auto& [label, name] : {std::pair("LABEL_3", "photo.jpg"), std::pair("LABEL_2", "alpha.png"),
                                    std::pair("LABEL_4", "cmyk.jpg"), std::pair("LABEL_1", "wide.png")}) {
    fs::create_directories(folder.path() / label);
    fs::copy(std::string(HEED_FIXTURES) + "/image/pictures/" + name, folder.path() / label / name);
  }
  const Words words{"evaluate", "--model", HEED_FIXTURES "/vit", "--data", folder.path().string()};
  const Result result = run(words);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("accuracy = 75.00 %"), HasSubstr("of 4 images"),
                    HasSubstr("LABEL_3: precision 100.00 %, recall 100.00 %, F1 100.00 %, 1 image\n")));
  fs::rename(folder.path() / "LABEL_1", folder.path() / "cat");
  EXPECT_THAT(run(words).err, HasSubstr("cat/wide.png: expected one of the model's labels, got \"cat\" (the "
                                        "folders are named as the labels"));
}

TEST(Classify, ABadImageLeavesTheOthersAsTheyAre) {
  const std::string photo = std::string(HEED_FIXTURES) + "/image/pictures/photo.jpg";
  const Result result = run({"classify", "--model", HEED_FIXTURES "/vit", photo,
                             HEED_FIXTURES "/vit/config.json", "none.png", photo});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "LABEL_3 0.8134\n\n\nLABEL_3 0.8134\n");
  EXPECT_THAT(result.err, HasSubstr("vit/config.json: expected a PNG, JPEG, WebP, GIF or PNM image"));
  EXPECT_THAT(result.err, HasSubstr("heed: error: line 3: none.png: not found"));
}

TEST(Classify, ImagesOfAnotherSizeThanTheModels) {
  const Folder folder;
  fs::copy(HEED_FIXTURES "/vit", folder.path(), fs::copy_options::recursive);
  Json settings = read_json((folder.path() / "preprocessor_config.json").string());
  settings["size"] = {{"height", 24}, {"width", 32}};
  spill((folder.path() / "preprocessor_config.json").string(), settings.dump());
  const Words words{"classify", "--model", folder.path().string(), HEED_FIXTURES "/image/pictures/photo.jpg"};
  EXPECT_THAT(run(words).err,
              HasSubstr("photo.jpg: expected pixels [3, 32, 32] after preprocessing, got f32[1, 3, 24, 32]"));
  fs::remove(folder.path() / "preprocessor_config.json");
  EXPECT_THAT(run(words).err, HasSubstr("preprocessor_config.json: not found"));
}

// A DINOv2 takes any size, as transformers 5.24 does (BitImageProcessorPil,
// Dinov2WithRegistersForImageClassification).
TEST(Classify, ImagesOfAnotherSizeThanTheConfigsForADinov2) {
  const Folder folder;
  fs::copy(HEED_FIXTURES "/dinov2-classify", folder.path(), fs::copy_options::recursive);
  spill((folder.path() / "preprocessor_config.json").string(),
        R"({"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 48}, "resample": 3,
            "crop_size": {"height": 40, "width": 40}, "image_mean": [0.485, 0.456, 0.406],
            "image_std": [0.229, 0.224, 0.225]})");
  const std::string pictures = HEED_FIXTURES "/image/pictures/";
  const Result result = run_json({"classify", "--model", folder.path().string()},
                                 {pictures + "photo.jpg", pictures + "alpha.png"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::vector<Json> lines = json_lines(result.out);
  EXPECT_EQ(lines.at(0)[0].at("label"), "LABEL_0");
  EXPECT_NEAR(lines.at(0)[0].at("score"), 0.37468949, 2e-6);
  EXPECT_EQ(lines.at(1)[0].at("label"), "LABEL_2");
  EXPECT_NEAR(lines.at(1)[0].at("score"), 0.33879337, 2e-6);
}

TEST(ClassifyTokens, GivesThePipelinesEntities) {
  const Changed model("bert-tag", expected().at("tag_config"));
  for (const std::string aggregation : {"none", "simple", "first", "average", "max"}) {
    Json rows = Json::array();
    for (const Json& row : expected().at("tag")) {
      if (row.at("aggregation") == aggregation) rows.push_back(row);
    }
    const Result result =
        run_json({"classify", "--model", model.path, "--aggregation", aggregation}, texts_of(rows));
    ASSERT_EQ(result.status, 0) << result.err;
    const std::vector<Json> got = json_lines(result.out);
    ASSERT_EQ(got.size(), rows.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Json& want = rows[i].at("result");
      ASSERT_EQ(got[i].size(), want.size()) << aggregation << " " << rows[i].at("text");
      for (std::size_t e = 0; e < want.size(); ++e) {
        for (const auto& [key, value] : want[e].items()) {
          if (key == "score") {
            EXPECT_NEAR(got[i][e].at(key), value.get<double>(), 2e-5);
          } else {
            EXPECT_EQ(got[i][e].at(key), value) << aggregation << " " << rows[i].at("text");
          }
        }
      }
    }
  }
}

// The windows of a long text cover each of its tokens once.
TEST(ClassifyTokens, LabelsEveryTokenOfALongText) {
  const Changed model("bert-tag",
                      {{"id2label", {{"0", "A"}, {"1", "B"}, {"2", "C"}, {"3", "D"}, {"4", "E"}}}});
  std::string text;
  for (int i = 0; i < 60; ++i) text += "cat, ";
  const Result result =
      run_json({"classify", "--model", model.path, "--aggregation", "none", "--stride", "8"}, {text});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json tokens = Json::parse(result.out);
  std::int64_t end = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].at("index"), i + 1);
    EXPECT_GE(tokens[i].at("start").get<std::int64_t>(), end);
    EXPECT_LE(tokens[i].at("start").get<std::int64_t>(), end + 1);
    end = tokens[i].at("end");
  }
  EXPECT_EQ(end, 299);
}

TEST(Answer, FindsTheBestSpan) {
  for (const Json& row : expected().at("answer")) {
    const Result result = run_json(
        {"answer", "--model", encoder("bert-qa"), "--question", row.at("question"), "--context",
         row.at("context"), "--max-input-tokens", std::to_string(row.at("max_input_tokens").get<int>()),
         "--stride", std::to_string(row.at("stride").get<int>())},
        {});
    ASSERT_EQ(result.status, 0) << result.err;
    const Json got = Json::parse(result.out), &want = row.at("answers")[0];
    EXPECT_EQ(got.at("answer"), want.at("answer"));
    EXPECT_EQ(got.at("start"), want.at("start"));
    EXPECT_EQ(got.at("end"), want.at("end"));
    EXPECT_NEAR(got.at("score"), want.at("score").get<double>(), 1e-5);
  }
}

TEST(Answer, MayFindNone) {
  const Json& row = expected().at("answer")[0];
  const Words words{"answer",
                    "--model",
                    encoder("bert-qa"),
                    "--context",
                    row.at("context"),
                    "--max-input-tokens",
                    "40",
                    "--stride",
                    "8",
                    "--impossible",
                    "--null-threshold",
                    "0.01",
                    "--top-k",
                    "2",
                    "--json"};
  const Json got = Json::parse(output_of(words, row.at("question").get<std::string>() + "\n"));
  ASSERT_EQ(got.size(), 2u);
  const Json& none = got[1].at("answer") == "" ? got[1] : got[0];
  EXPECT_EQ(none.at("answer"), "");
  EXPECT_NEAR(none.at("score"), row.at("null_score").get<double>(), 1e-5);
  EXPECT_EQ(run({"answer", "--model", encoder("bert-qa"), "--question", "who?"}).status, 2);
  EXPECT_EQ(run({"answer", "--model", encoder("bert-qa"), "--question", "", "--context", "Ada."}).status, 1);
}

TEST(Embed, PoolsTheLastHiddenState) {
  const Json& rows = expected().at("embed");
  for (const std::string pooling : {"cls", "last", "mean", "max", "mean_sqrt", "weighted_mean"}) {
    const Result result =
        run_json({"embed", "--model", encoder("bert"), "--pooling", pooling}, texts_of(rows));
    ASSERT_EQ(result.status, 0) << result.err;
    const std::vector<Json> got = json_lines(result.out);
    ASSERT_EQ(got.size(), rows.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Json& want = rows[i].at(pooling);
      ASSERT_EQ(got[i].size(), want.size());
      for (std::size_t d = 0; d < want.size(); ++d) EXPECT_NEAR(got[i][d], want[d].get<double>(), 1e-5);
    }
  }
}

TEST(Embed, FollowsModulesJson) {
  const Changed model("bert", Json::object());
  spill(model.path + "/modules.json",
        R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
            {"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
            {"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}])");
  fs::create_directory(model.path + "/1_Pooling");
  spill(
      model.path + "/1_Pooling/config.json",
      R"({"word_embedding_dimension": 48, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})");
  spill(model.path + "/sentence_bert_config.json", R"({"max_seq_length": 30, "do_lower_case": false})");
  const Json& row = expected().at("embed")[0];
  const Json got = Json::parse(output_of({"embed", "--model", model.path, row.at("text")}));
  ASSERT_EQ(got.size(), 96u);
  double squares = 0;
  for (std::size_t d = 0; d < 48; ++d) {
    squares += std::pow(row.at("cls")[d].get<double>(), 2) + std::pow(row.at("mean")[d].get<double>(), 2);
  }
  EXPECT_NEAR(got[5], row.at("cls")[5].get<double>() / std::sqrt(squares), 1e-6);
  EXPECT_NEAR(got[50], row.at("mean")[2].get<double>() / std::sqrt(squares), 1e-6);
  spill(model.path + "/modules.json", R"([{"type":"sentence_transformers.models.CNN", "path":""}])");
  EXPECT_THAT(run({"embed", "--model", model.path, "a"}).err, HasSubstr("type: expected a Transformer"));
  for (const char* outside : {"/etc", "..", "1_Pooling/../../x"}) {
    spill(model.path + "/modules.json", R"([{"type":"Transformer", "path":""}, {"type":"Pooling", "path":")" +
                                            std::string(outside) + "\"}]");
    EXPECT_THAT(run({"embed", "--model", model.path, "a"}).err,
                HasSubstr("modules.json: modules.1.path: expected a folder in the model's directory"));
  }
  spill(model.path + "/modules.json", "[], \"more\": []");
  EXPECT_THAT(run({"embed", "--model", model.path, "a"}).err, HasSubstr("modules.json: expected one list"));
}

// A copy of an encoder in which the first number of a tensor is NaN.
struct Damaged : Changed {
  Damaged(const std::string& name, const std::string& tensor) : Changed(name, Json::object()) {
    const std::string file = path + "/model.safetensors";
    std::string bytes = slurp(file);
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    const Json tensors = Json::parse(bytes.substr(8, header));
    bytes.replace(8 + header + tensors.at(tensor).at("data_offsets")[0].get<std::size_t>(), 4,
                  std::string("\0\0\xC0\x7F", 4));
    spill(file, bytes);
  }
};

TEST(Tasks, RefuseOutputsThatAreNoNumbers) {
  const Damaged fill("bert-mlm", "cls.predictions.bias"), classify("bert-classify", "classifier.bias"),
      tag("bert-tag", "classifier.bias"), answer("bert-qa", "qa_outputs.bias"),
      embed("bert", "embeddings.LayerNorm.bias");
  for (const Words& words :
       {Words{"fill", "--model", fill.path, "a [MASK]"}, Words{"classify", "--model", classify.path, "a"},
        Words{"classify", "--model", tag.path, "a"}, Words{"embed", "--model", embed.path, "a"},
        Words{"answer", "--model", answer.path, "--question", "who", "--context", "a b"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 1) << words[0];
    EXPECT_EQ(result.out, "") << words[0];
    EXPECT_THAT(result.err, HasSubstr("model: expected it to put out numbers, got NaN")) << words[0];
  }
}

// The numbers of a text do not depend on its neighbors, except for rounding, and files have the same content
// as lines.
TEST(Embed, WritesAnArrayInTheOrderOfTheLines) {
  const Folder folder;
  const std::string file = folder / "v.npy", input = "tea\nthe cat sat on the mat\n\na b c d e f\n";
  const Words words{"embed", "--model", encoder("bert")};
  ASSERT_EQ(run({"embed", "--model", encoder("bert"), "--output", file}, input).status, 0);
  const std::string npy = slurp(file);
  EXPECT_THAT(npy.substr(0, 128), HasSubstr("'shape': (4, 48)"));
  const std::vector<Json> together = json_lines(run(words, input).out),
                          apart = json_lines(
                              run({"embed", "--model", encoder("bert"), "--batch-tokens", "1"}, input).out);
  ASSERT_EQ(together.size(), 4u);
  const auto* numbers = reinterpret_cast<const float*>(npy.data() + npy.size() - 4 * 48 * 4);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t d = 0; d < 48; ++d) {
      EXPECT_NEAR(together[i][d], apart[i][d].get<double>(), 2e-6);
      EXPECT_FLOAT_EQ(together[i][d].get<float>(), numbers[48 * i + d]);
    }
  }
}

TEST(Evaluate, CountsRightLabels) {
  const Folder folder;
  const std::string model = encoder("bert-classify");
  const Words texts{"The cat sat on the mat.", "Tea?", "It is a fine day."};
  std::string tsv, csv = "text,number,label\n";
  for (const std::string& text : texts) {
    const std::string label =
        Json::parse(run_json({"classify", "--model", model, text}, {}).out)[0].at("label");
    const std::string given =
        text == "Tea?" ? "LABEL_" + std::to_string((label.back() - '0' + 1) % 3) : label;
    tsv += given + "\t" + text + "\n";
    csv += "\"" + text + "\",7," + given.substr(given.size() - 1) + "\n";
  }
  spill(folder / "dev.tsv", tsv);
  const Result result = run({"evaluate", "--model", model, "--data", folder / "dev.tsv", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json got = Json::parse(result.out);
  EXPECT_EQ(got.at("lines"), 3);
  EXPECT_NEAR(got.at("accuracy"), 2.0 / 3, 1e-12);
  spill(folder / "dev.csv", csv);
  const auto evaluate = [&](const char* file, const Words& more) {
    Words words{"evaluate", "--model", model, "--data", folder / file, "--json"};
    for (const std::string& setting : more) words.insert(words.end(), {"--set", setting});
    return run(words);
  };
  const Words columns{"data.format=csv", "data.text_column=1", "data.label_column=3"};
  Words with_header = columns;
  with_header.emplace_back("data.header=true");
  const Result other = evaluate("dev.csv", with_header);
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_EQ(Json::parse(other.out).at("accuracy"), got.at("accuracy"));
  EXPECT_THAT(
      evaluate("dev.csv", columns).err,
      HasSubstr("dev.csv:1: expected one of the model's labels, got \"label\" (--set data.label_column"));
  EXPECT_THAT(evaluate("dev.tsv", {"data.label_key=x"}).err, HasSubstr("which is for jsonl"));
  EXPECT_THAT(evaluate("dev.tsv", {"train.lr=1"}).err, HasSubstr("--set: expected keys of data or task"));
  EXPECT_THAT(evaluate("dev.tsv", {"data.colour=1"}).err, HasSubstr("--set: "));
  // --tsv has the label last, unless only the first column has labels, or --columns says otherwise.
  std::string label_last, others;
  for (const std::string& line : lines(tsv)) {
    const std::size_t tab = line.find('\t');
    const std::string label = line.substr(0, tab), text = line.substr(tab + 1);
    label_last += text + "\t" + label + "\n";
    others += "7\t" + text + "\tx\t" + label + "\tmore\n";
  }
  spill(folder / "last.tsv", label_last);
  spill(folder / "header.tsv", "text\tlabel\n" + label_last);
  spill(folder / "others.tsv", others);
  const auto of_tsv = [&](const char* file, const Words& more) {
    Words words{"evaluate", "--model", model, "--tsv", folder / file, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  for (const char* file : {"last.tsv", "header.tsv", "dev.tsv"}) {
    const Result found = of_tsv(file, {});
    ASSERT_EQ(found.status, 0) << found.err;
    EXPECT_EQ(Json::parse(found.out).at("accuracy"), got.at("accuracy")) << file;
    EXPECT_EQ(found.err.find("labels are in the first column") != std::string::npos, file[0] == 'd');
  }
  EXPECT_EQ(Json::parse(of_tsv("others.tsv", {"--columns", "-,text,-,label"}).out).at("accuracy"),
            got.at("accuracy"));
  spill(folder / "bad.tsv", "a\t0\nb\t7\n");
  EXPECT_THAT(of_tsv("bad.tsv", {}).err, HasSubstr("bad.tsv:2"));
  for (const char* wrong : {"text", "label,label,text", "text,lable"}) {
    EXPECT_THAT(of_tsv("others.tsv", {"--columns", wrong}).err,
                HasSubstr(std::string("--columns: expected text, label and perhaps pair, - for other "
                                      "columns, separated by commas, got ") +
                          wrong));
  }
  EXPECT_THAT(of_tsv("last.tsv", {"--data", folder / "dev.tsv"}).err, HasSubstr("--data or --tsv, got both"));
  EXPECT_THAT(run({"evaluate", "--columns", "text,label"}).err, HasSubstr("--columns: missing --tsv"));
  EXPECT_THAT(run({"evaluate", "--set", "data.header=true"}).err, HasSubstr("--set: missing --data"));
}

// As evaluation_test.cpp of training checks against the scores of a run.
TEST(Evaluate, ScoresTaggersAndAnswers) {
  const Folder folder;
  spill(folder / "words.conll", "Ada LABEL_1\nwent LABEL_0\n\nto LABEL_0\nLondon LABEL_2\n");
  const Result tags =
      run({"evaluate", "--model", encoder("bert-tag"), "--data", folder / "words.conll", "--json"});
  ASSERT_EQ(tags.status, 0) << tags.err;
  for (const char* name : {"loss", "f1", "precision", "recall", "accuracy", "seconds"})
    EXPECT_TRUE(Json::parse(tags.out).contains(name)) << name;
  spill(folder / "squad.json",
        R"({"data": [{"paragraphs": [{"context": "The cat sat.", "qas": [{"question": "Who?", "answers":
        [{"text": "cat", "answer_start": 4}]}]}]}]})");
  const Result answers = run({"evaluate", "--model", encoder("bert-qa"), "--data", folder / "squad.json"});
  ASSERT_EQ(answers.status, 0) << answers.err;
  EXPECT_THAT(answers.out, testing::ContainsRegex("^loss = [0-9.]+  exact = [0-9.]+  f1 = [0-9.]+\n$"));
  EXPECT_THAT(run({"evaluate", "--model", encoder("bert-mlm"), "--data", folder / "squad.json"}).err,
              HasSubstr("cannot classify texts (use heed fill)"));
}

// As transformers 5.24 labels the recording. The file before it is none.
TEST(ClassifySounds, GivesTheLabelsOfARecording) {
  const Words words{"classify",
                    "--json",
                    "--top-k",
                    "3",
                    "--model",
                    HEED_FIXTURES "/audio-spectrogram",
                    HEED_FIXTURES "/speech/README.md",
                    HEED_FIXTURES "/speech/tones.flac"};
  const Result result = run(words);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("README.md: expected a sound file"));
  const Words answers = lines(result.out);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(Json::parse(answers[0]).at("error").get<std::string>(),
              HasSubstr("README.md: expected a sound"));
  const Json labels = Json::parse(answers[1]);
  const std::pair<const char*, double> expected[] = {
      {"LABEL_2", 0.4864750802516937}, {"LABEL_0", 0.293145090341568}, {"LABEL_1", 0.16057032346725464}};
  ASSERT_EQ(labels.size(), std::size(expected));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(labels[i].at("label"), expected[i].first);
    EXPECT_NEAR(labels[i].at("score").get<double>(), expected[i].second, 1e-5);
  }
}

}  // namespace
}  // namespace heed::cli_test
