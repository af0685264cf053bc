// attend, evaluate, models, means and tokenize on a freshly trained model, and the help of all commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Result attend(const Words& options) {
  Words words{"attend", "--model", tiny_model(), "a b c"};
  words.insert(words.end(), options.begin(), options.end());
  return run(words);
}

void expect_rows_sum_to_one(const Json& picture) {
  for (const Json& map : picture.at("maps")) {
    ASSERT_EQ(map.at("weights").size(), map.at("queries").get<std::size_t>());
    for (const Json& row : map.at("weights")) {
      ASSERT_EQ(row.size(), map.at("keys").get<std::size_t>());
      double sum = 0;
      for (const Json& weight : row) sum += weight.get<double>();
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

TEST(Attend, RowsSumToOneForEveryKind) {
  const std::vector<std::pair<std::string, std::size_t>> kinds{
      {"cross", 4}, {"encoder", 4}, {"decoder", 4}, {"self", 8}};
  for (const auto& [kind, maps] : kinds) {
    const Result result = attend({"--json", "--kind", kind, "--heads", "all", "--target", "c b"});
    ASSERT_EQ(result.status, 0) << result.err;
    const Json picture = Json::parse(result.out);
    EXPECT_EQ(picture.at("maps").size(), maps) << kind;
    expect_rows_sum_to_one(picture);
  }
}

TEST(Attend, ShowsTheLayersAndHeadsAskedFor) {
  const Json picture =
      Json::parse(attend({"--json", "--target", "c b", "--layers", "1", "--heads", "0"}).out);
  ASSERT_EQ(picture.at("maps").size(), 1u);
  EXPECT_EQ(picture.at("maps")[0].at("layer"), 1);
  EXPECT_EQ(picture.at("maps")[0].at("head"), 0);
  EXPECT_EQ(picture.at("maps")[0].at("queries"), 3);  // two letters and the end token
  EXPECT_EQ(picture.at("maps")[0].at("keys"), 4);
  EXPECT_EQ(picture.at("tokens").at("cross").at("keys").back(), "</s>");
}

TEST(Attend, DrawsInTheTerminalAndInFiles) {
  const Result terminal = attend({"--target", "c b a"});
  EXPECT_THAT(terminal.out,
              AllOf(StartsWith("a b c → c b a\n"), HasSubstr("cross-attention, layer 1, mean of heads")));
  EXPECT_EQ(terminal.out.find('\033'), std::string::npos);  // no color in a file
  const Folder folder;
  for (const char* name : {"map.svg", "map.html", "map.json", "map.npy", "map.png"}) {
    ASSERT_EQ(attend({"--output", folder / name, "--target", "c b"}).status, 0);
  }
  EXPECT_EQ(listing(folder.path()), (Words{"map.html", "map.json", "map.npy", "map.png", "map.svg"}));
  EXPECT_THAT(slurp(folder / "map.svg"), AllOf(HasSubstr("<svg"), HasSubstr("</svg>")));
  EXPECT_THAT(slurp(folder / "map.html"), AllOf(HasSubstr("<html"), HasSubstr("</html>")));
  EXPECT_THAT(slurp(folder / "map.png"), StartsWith("\x89PNG"));
  EXPECT_THAT(slurp(folder / "map.npy"), StartsWith("\x93NUMPY"));
  expect_rows_sum_to_one(read_json(folder / "map.json"));
}

TEST(Attend, ShowsOtherMeasuresThanWeights) {
  const Json picture = Json::parse(attend({"--json", "--target", "c b", "--kind", "encoder", "--heads", "all",
                                           "--show", "norms,rollout,gradient"})
                                       .out);
  std::map<std::string, std::size_t> maps;
  for (const Json& map : picture.at("maps")) {
    ++maps[map.at("measure")];
    if (map.at("measure") == "rollout" || map.at("measure") == "weights")
      expect_rows_sum_to_one({{"maps", {map}}});
  }
  EXPECT_EQ(maps, (std::map<std::string, std::size_t>{{"norms", 4}, {"rollout", 2}, {"gradient", 4}}));
  const Json largest = Json::parse(attend({"--json", "--target", "c b", "--heads", "max"}).out);
  EXPECT_EQ(largest.at("maps")[0].at("head"), "max");
}

TEST(Attend, SaysWhatEachHeadsAbsenceChanges) {
  const Json picture = Json::parse(attend({"--json", "--target", "c b", "--heads", "all", "--ablate"}).out);
  EXPECT_EQ(picture.at("scored").size(), 3u);  // two letters and the end token
  ASSERT_EQ(picture.at("ablation").size(), 4u);
  double largest = 0;
  for (const Json& head : picture.at("ablation")) {
    ASSERT_EQ(head.at("change").size(), 3u);
    for (const Json& change : head.at("change")) largest = std::max(largest, std::abs(change.get<double>()));
  }
  EXPECT_GT(largest, 0);
}

TEST(Attend, RemovesTheChosenHeadsAlone) {
  const Words all{"--json", "--target", "c b", "--layers", "1", "--ablate"};
  Words one = all;
  one.insert(one.end(), {"--heads", "1"});
  const Json heads = Json::parse(attend(all).out).at("ablation"),
             chosen = Json::parse(attend(one).out).at("ablation");
  ASSERT_EQ(heads.size(), 2u);
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0], heads[1]);
}

TEST(Attend, ShowsTheModelWithoutHeads) {
  const Folder folder;
  spill(folder / "reference.txt", "a d c b\nc c b a\n");
  const Words shown{"--json", "--target", "c b", "--kind", "decoder", "--heads", "all"};
  const auto maps = [&](const Words& options) {
    Words words = shown;
    words.insert(words.end(), options.begin(), options.end());
    return Json::parse(attend(words).out);
  };
  const Json whole = maps({}), zero = maps({"--remove", "0.1"}),
             mean = maps({"--remove", "0.1", "--ablation", "mean", "--reference", folder / "reference.txt"});
  EXPECT_THAT(zero["title"].get<std::string>(), HasSubstr(" (with zeros for 0.1)"));
  ASSERT_EQ(zero["maps"].size(), whole["maps"].size());
  for (std::size_t i = 0; i < whole["maps"].size(); ++i) {
    const bool later = whole["maps"][i]["layer"] == 1;
    EXPECT_EQ(zero["maps"][i]["weights"] != whole["maps"][i]["weights"], later) << i;
    EXPECT_EQ(mean["maps"][i]["weights"] != zero["maps"][i]["weights"], later) << i;
  }
  // Without each head in turn, by zeros and by means.
  EXPECT_NE(maps({"--ablation", "mean"})["ablation"], maps({"--ablate"})["ablation"]);
  EXPECT_FALSE(zero.contains("ablation"));
  EXPECT_THAT(attend({"--remove", "0"}).err, HasSubstr("--remove: expected heads LAYER.HEAD"));
  EXPECT_THAT(attend({"--reference", "x"}).err, HasSubstr("--reference: needs --ablation mean or resample"));
}

TEST(Attend, PagesHoldEveryKind) {
  const Folder folder;
  ASSERT_EQ(attend({"--target", "c b", "--output", folder / "all.html"}).status, 0);
  ASSERT_EQ(attend({"--target", "c b", "--output", folder / "plain.html", "--no-ablate"}).status, 0);
  EXPECT_EQ(slurp(folder / "plain.html").find("\"ablation\":["), std::string::npos);
  const std::string page = slurp(folder / "all.html");
  for (const char* part :
       {"\"kind\":\"cross\"", "\"kind\":\"encoder\"", "\"kind\":\"decoder\"", "\"measure\":\"rollout\"",
        "\"norms\":[", "\"ablation\":[", "\"candidates\":[", "\"vectors\":["})
    EXPECT_THAT(page, HasSubstr(part));
}

// What the page says is what the commands for these tasks say, which other tests compare with transformers.
TEST(Attend, PagesSayWhatTheModelAnswers) {
  const Folder folder;
  const auto page_of = [&](const std::string& name, const Words& text) {
    Words words{"attend", "--model", encoder(name), "--output", folder / "a.html"};
    words.insert(words.end(), text.begin(), text.end());
    EXPECT_EQ(run(words).status, 0);
    const std::string page = slurp(folder / "a.html"), start = "id=\"data\">";
    const std::size_t begin = page.find(start) + start.size();
    return Json::parse(page.substr(begin, page.find("</script", begin) - begin));
  };
  const Json labels = page_of("bert-classify", {"a text"});
  const Json classes =
      Json::parse(output_of({"classify", "--model", encoder("bert-classify"), "a text", "--json"}));
  EXPECT_EQ(labels["model"]["name"], "bert-classify");
  EXPECT_EQ(labels["model"]["task"], "sequence");
  EXPECT_EQ(labels["model"]["answer"][0][0], classes[0]["label"]);
  EXPECT_NEAR(labels["model"]["answer"][0][1].get<double>(), classes[0]["score"].get<double>(), 1e-4);

  const Json mask = page_of("bert-mlm", {"a [MASK] b"});
  EXPECT_EQ(mask["model"]["task"], "masked_lm");
  const std::size_t own = mask["kinds"][0]["own"];
  EXPECT_EQ(mask["kinds"][0]["queries"][own], "[MASK]");
  EXPECT_EQ(mask["model"]["answer"][0], mask["kinds"][0]["candidates"][own][0]);

  const Json tags = page_of("bert-tag", {"a text"});
  EXPECT_EQ(tags["model"]["task"], "token");
  EXPECT_EQ(tags["kinds"][0]["candidates"].size(), tags["kinds"][0]["queries"].size())
      << "labels of each token";

  const Json answer = page_of("bert-qa", {"who?", "--pair", "a b c"});
  EXPECT_EQ(answer["model"]["task"], "span");
  const std::size_t begin = answer["kinds"][0]["own"];
  const std::string text = answer["model"]["answer"][0][0], first = answer["kinds"][0]["queries"][begin];
  EXPECT_THAT(text, testing::StartsWith(first));
}

TEST(Attend, ShowsBytesAsCharactersToReaders) {
  const Words words{"attend", "--model", std::string(HEED_FIXTURES) + "/encoders/roberta-mlm", "a é"};
  const std::string terminal = output_of(words);
  EXPECT_EQ(terminal.find("Ġ"), std::string::npos);
  EXPECT_EQ(terminal.find("Ã"), std::string::npos);
  Words json = words;
  json.emplace_back("--json");
  EXPECT_THAT(run(json).out, HasSubstr("Ġ")) << "programs get the vocabulary's tokens";
}

// Weights of transformers 5.24 (ViTImageProcessorPil, ViTForImageClassification) for the same file.
TEST(Attend, ImageFilesHaveTheWeightsOfTransformers) {
  const Folder folder;
  const std::string photo = std::string(HEED_FIXTURES) + "/image/pictures/photo.jpg";
  const Words words{"attend", "--model", HEED_FIXTURES "/vit", photo};
  Words json = words;
  json.insert(json.end(), {"--layers", "1", "--heads", "2", "--output", folder / "photo.json"});
  ASSERT_EQ(run(json).status, 0);
  const Json picture = read_json(folder / "photo.json");
  EXPECT_EQ(picture.at("title"), "photo.jpg");
  EXPECT_EQ(picture.at("tokens").at("encoder").at("keys").at(5), "1,0");
  const std::vector<double> wanted{0.082465, 0.000482, 0.001463, 0.000446, 0.005949, 0.010243,
                                   0.000253, 0.009265, 0.002998, 0.172995, 0.000355, 0.018809,
                                   0.009503, 0.155624, 0.15027,  0.364142, 0.014738};
  const Json row = picture.at("maps").at(0).at("weights").at(0);
  ASSERT_EQ(row.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(row[i], wanted[i], 2e-6);
  // Over the image: the class token, or a patch.
  EXPECT_THAT(run(words).out,
              AllOf(HasSubstr("photo.jpg: what the class token attends to\n\nlayer 0, mean of heads\n"),
                    HasSubstr("bright: where the weights are large")));
  Words figure = words;
  figure.insert(figure.end(), {"--patch", "3,1", "--output", folder / "photo.svg"});
  ASSERT_EQ(run(figure).status, 0);
  std::ifstream svg(folder / "photo.svg");
  EXPECT_THAT((std::string(std::istreambuf_iterator<char>(svg), {})),
              AllOf(HasSubstr("what patch 3,1 attends to"), HasSubstr("<use href=\"#image\"")));
  figure[5] = "4,0";
  expect_error(2, figure, "--patch: expected a row below 4 and a column below 4, such as 2,2, got 4,0");
  figure.back() = folder / "photo.html";
  expect_error(2, figure, "--patch: expected an image, in the terminal or in .svg, .pdf or .png");
  expect_error(1, {"attend", "--model", HEED_FIXTURES "/vit", "none.jpg"}, "none.jpg: not found");
  expect_error(1, {"attend", "--model", HEED_FIXTURES "/vit-model", photo},
               "preprocessor_config.json: not found");
}

// An error of the one input is the command's: there are no lines to name, and no line of output to keep.
TEST(Attend, OnlyLinesAreNumberedInErrors) {
  const Folder folder;
  std::string longest = "the";
  for (int i = 0; i < 400; ++i) longest += " cat";
  const std::string bert = std::string(HEED_FIXTURES) + "/encoders/bert";
  const std::string vit = std::string(HEED_FIXTURES) + "/vit-model", absent = folder / "absent.safetensors";
  for (const Words& words :
       {Words{"attend", "--model", bert, longest}, Words{"attend", "--model", vit, "--input", absent}}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
    EXPECT_EQ(result.err.find("line "), std::string::npos) << result.err;
  }
  const Result piped = run({"attend", "--model", bert}, longest + "\n");
  EXPECT_THAT(piped.err, HasSubstr("heed: error: line 1: "));
  EXPECT_EQ(piped.out, "\n");
}

TEST(Attend, SaysHowFarAblationIs) {
  const Folder folder;
  const Result result = attend({"--target", "c b", "--ablate", "--output", folder / "map.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto said = lines(result.err);
  ASSERT_GE(said.size(), 2u);
  EXPECT_THAT(said[0], testing::MatchesRegex("0/[0-9]+ heads removed"));
  EXPECT_THAT(said[1], testing::MatchesRegex("([0-9]+)/[0-9]+ heads removed"));
  EXPECT_EQ(said[1].substr(0, said[1].find('/')),
            said[1].substr(said[1].find('/') + 1, said[1].find(' ') - said[1].find('/') - 1));
}

TEST(Attend, ReadsLinesWithoutATextAndNumbersTheirFiles) {
  const auto pictures = json_lines(output_of({"attend", "--model", tiny_model(), "--json"}, "a b c\nd e\n"));
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_EQ(pictures[0], Json::parse(attend({"--json"}).out));
  const Folder folder;
  ASSERT_EQ(attend({"d e", "--output", folder / "map.svg"}).status, 0);
  EXPECT_EQ(listing(folder.path()), (Words{"map-1.svg", "map-2.svg"}));
  const Result target = attend({"d e", "--target", "b"});
  EXPECT_EQ(target.status, 2);
  EXPECT_THAT(target.err, HasSubstr("--target: expected one text, got 2"));
}

TEST(Evaluate, ScoresFilesAndModels) {
  const Folder folder;
  spill(folder / "text", "a b c d e f\ng h i j k\n");
  spill(folder / "other", "a b c d e f\nk j i h g\n");
  const Json same = Json::parse(
      run({"evaluate", "--json", "--hypothesis", folder / "text", "--reference", folder / "text"}).out);
  EXPECT_EQ(same.at("lines"), 2);
  EXPECT_NEAR(same.at("bleu").get<double>(), 100, 1e-9);
  EXPECT_NEAR(same.at("chrf").get<double>(), 100, 1e-9);
  EXPECT_EQ(same.at("exact"), 100.0);
  EXPECT_THAT(same.at("bleu_signature").get<std::string>(),
              StartsWith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp"));
  const Json half = Json::parse(
      run({"evaluate", "--json", "--hypothesis", folder / "other", "--reference", folder / "text"}).out);
  EXPECT_LT(half.at("bleu").get<double>(), 100);
  EXPECT_EQ(half.at("exact"), 50.0);
  const Json two = Json::parse(run({"evaluate", "--json", "--hypothesis", folder / "other", "--reference",
                                    folder / "text", "--reference", folder / "other"})
                                   .out);
  EXPECT_EQ(two.at("exact"), 100.0);
  // The score of a model is that of its translations.
  spill(folder / "translated",
        run({"translate", "--model", tiny_model(), "--max-new-tokens", "6"}, slurp(folder / "text")).out);
  const Json scored = Json::parse(
      run({"evaluate", "--json", "--hypothesis", folder / "translated", "--reference", folder / "text"}).out);
  const Result model = run({"evaluate", "--json", "--quiet", "--model", tiny_model(), "--max-new-tokens", "6",
                            "--source", folder / "text", "--reference", folder / "text"});
  ASSERT_EQ(model.status, 0) << model.err;
  EXPECT_EQ(model.err, "");
  EXPECT_EQ(Json::parse(model.out).at("bleu"), scored.at("bleu"));
  EXPECT_EQ(Json::parse(model.out).at("chrf"), scored.at("chrf"));
}

TEST(Evaluate, ScoresByLengthOfTheSource) {
  const Folder folder;
  spill(folder / "source", "a b c d\na b c d e f g\n");
  spill(folder / "reference", "one two three four five\nsix seven eight nine ten\n");
  spill(folder / "short.de", "one two three four five\nnine nine nine nine nine\n");
  const Words command{"evaluate",
                      "--source",
                      folder / "source",
                      "--hypothesis",
                      folder / "short.de",
                      "--reference",
                      folder / "reference",
                      "--hypothesis",
                      folder / "reference",
                      "--by-length",
                      "5"};
  Words json = command;
  json.insert(json.end(), {"--json", "--output", folder / "lengths.svg"});
  const std::vector<std::string> objects = lines(output_of(json));
  ASSERT_EQ(objects.size(), 2u);
  const Json groups = Json::parse(objects[0]).at("by_length");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].at("from"), 1);
  EXPECT_EQ(groups[0].at("to"), 5);
  EXPECT_NEAR(groups[0].at("bleu").get<double>(), 100, 1e-9);
  EXPECT_LT(groups[1].at("bleu").get<double>(), 20);  // one word of five
  EXPECT_EQ(Json::parse(objects[1]).at("hypothesis"), folder / "reference");
  EXPECT_THAT(slurp(folder / "lengths.svg"), AllOf(HasSubstr(">short<"), HasSubstr(">reference<")));
  EXPECT_THAT(run(command).out, HasSubstr("6 to  10 words  1 line"));
}

TEST(Evaluate, DrawsNoLengthOfAFewLines) {
  const Folder folder;
  std::string texts;
  for (int line = 0; line < 150; ++line) texts += line % 2 == 0 ? "a b c d e\n" : "a b c d e f g\n";
  spill(folder / "common", texts);
  spill(folder / "rare", texts + "a b c d e f g h i j k l m\n");
  for (const char* name : {"common", "rare"}) {
    const std::string file = folder / name, picture = folder / "lengths.svg";
    const Result result = run({"evaluate", "--source", file, "--hypothesis", file, "--reference", file,
                               "--by-length", "5", "--output", picture});
    ASSERT_EQ(result.status, 0) << result.err;
    const std::string svg = slurp(picture);
    std::size_t points = 0;
    for (std::size_t at = svg.find("<circle"); at != std::string::npos; at = svg.find("<circle", at + 1))
      ++points;
    EXPECT_EQ(points, 2u) << name;
    EXPECT_EQ(svg.find("are left out") != std::string::npos, name == std::string("rare"));
  }
}

TEST(Evaluate, ScoresSummariesByRouge) {
  const Folder folder;
  spill(folder / "output", "the cat sat on the mats\nnothing\n");
  spill(folder / "one", "a cat sat on a mat\nsomething\n");
  spill(folder / "two", "\nnothing\n");
  const Words files{"evaluate",    "--hypothesis", folder / "output", "--reference", folder / "one",
                    "--reference", folder / "two", "--scores",        "rouge"};
  const auto with = [&](const Words& more) {
    Words words = files;
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Json plain = Json::parse(with({"--json"}).out);
  EXPECT_NEAR(plain.at("rouge1").get<double>(), (50 + 100) / 2.0, 1e-9);
  EXPECT_NEAR(plain.at("rouge2").get<double>(), (40 + 0) / 2.0, 1e-9);
  EXPECT_NEAR(plain.at("rougeL_precision").get<double>(), (50 + 100) / 2.0, 1e-9);
  EXPECT_NEAR(plain.at("rougeLsum_recall").get<double>(), (50 + 100) / 2.0, 1e-9);
  EXPECT_FALSE(plain.contains("bleu"));
  const Json stemmed = Json::parse(with({"--json", "--stemmer"}).out);
  EXPECT_NEAR(stemmed.at("rouge1").get<double>(), (400.0 / 6 + 100) / 2, 1e-9);
  EXPECT_THAT(stemmed.at("rouge_signature").get<std::string>(), StartsWith("nrefs:2|stem:porter|"));
  const std::string text = with({"--scores", "bleu,rouge"}).out;
  EXPECT_THAT(text, StartsWith("BLEU = "));
  EXPECT_THAT(text, HasSubstr("\nROUGE-1 = 75.00  ROUGE-2 = 20.00  ROUGE-L = 75.00  ROUGE-Lsum = 75.00  "));
}

TEST(Convert, TheMeanOfAModelWithItselfIsThatModel) {
  const Folder folder;
  const Result one = run({"convert", tiny_model(), tiny_model(), "--output", folder / "one"});
  ASSERT_EQ(one.status, 0) << one.err;
  const std::string source = "a b c\nd e f\n";
  EXPECT_EQ(run({"translate", "--json", "--model", folder / "one"}, source).out,
            run({"translate", "--json", "--model", tiny_model()}, source).out);
  const Words files = listing(folder / "one");
  EXPECT_EQ(files, (Words{"config.json", "generation_config.json", "model.safetensors", "source.spm",
                          "special_tokens_map.json", "target.spm", "tokenizer_config.json", "vocab.json"}));
  ASSERT_EQ(
      run({"convert", tiny_model() + "/checkpoints/24", folder / "one", "--output", folder / "two"}).status,
      0);
  EXPECT_EQ(listing(folder / "two"), files);
}

TEST(ModelNamed, IsDescribed) {
  const Result text = run({"models", tiny_model()});
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("family      marian"),
                    HasSubstr("commands    translate, evaluate --source, train --init, embed, attend"),
                    HasSubstr("[36, 16]       model.shared.weight")));
  EXPECT_EQ(run({"embed", "--model", tiny_model(), "a b"}).status, 0);
  EXPECT_THAT(run({"models", std::string(HEED_FIXTURES) + "/decoders/llama"}).out,
              HasSubstr("positions   trained on 64; no hard limit"));
  EXPECT_EQ(run({"models", "--model", tiny_model()}).out, text.out);
  const Json info = Json::parse(run({"models", "--json", marian()}).out);
  EXPECT_EQ(info.at("model_type"), "marian");
  EXPECT_EQ(
      info.at("commands"),
      Json::parse(
          R"(["translate","evaluate --source","train --init","embed","attend","explore","heads","lens","ablate","patch","attribute",
                          "tokenize","serve","forward","doctor"])"));
  EXPECT_EQ(info.at("bytes"), 460596);
  std::int64_t elements = 0;
  for (const Json& tensor : info.at("tensors")) {
    std::int64_t count = 1;
    for (const Json& size : tensor.at("shape")) count *= size.get<std::int64_t>();
    elements += count;
  }
  EXPECT_EQ(4 * elements, 460596);
  EXPECT_EQ(info.at("dtype"), "F32");
  EXPECT_EQ(info.at("max_positions"), 48);
  EXPECT_EQ(info.at("parameters"), elements - 541);  // the bias of the logits is not a parameter
}

TEST(Info, FindsModelsByName) {
  const std::filesystem::path folder = std::filesystem::path(tiny_model()).parent_path();
  ASSERT_EQ(::setenv("HEED_MODELS", ("/nowhere:" + folder.string()).c_str(), 1), 0);
  const Result result = run({"models", "model", "--json"});
  ::unsetenv("HEED_MODELS");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out).at("directory"), tiny_model());
}

TEST(Tokenize, GoesThereAndBack) {
  const auto encodings = json_lines(output_of({"tokenize", "--model", tiny_model()}, "a b c\r\n\nd\n"));
  ASSERT_EQ(encodings.size(), 3u);
  EXPECT_EQ(encodings[0].at("tokens").size(), 4u);
  EXPECT_EQ(encodings[0].at("offsets"), Json::parse("[[0,1],[1,3],[3,5],[0,0]]"));
  EXPECT_EQ(encodings[1].at("tokens"), Json::parse("[\"</s>\"]"));
  const std::string ids = joined(encodings[0].at("ids"));
  EXPECT_EQ(run({"tokenize", "--model", tiny_model(), "--decode", ids, "--skip-special-tokens"}).out,
            "a b c\n");
  EXPECT_EQ(run({"tokenize", "--model", tiny_model(), "--decode", ids, "--json"}).out, "\"a b c</s>\"\n");
  EXPECT_EQ(run({"tokenize", "--model", tiny_model(), "--decode", ids + ",99", "--json"}).out,
            "\"a b c</s>\"\n");
  EXPECT_EQ(json_lines(run({"tokenize", "--model", tiny_model(), "--no-special-tokens", "a b"}).out)[0]
                .at("ids")
                .size(),
            2u);
}

TEST(Tokenize, TakesATokenizerFileAndPairs) {
  const std::string file = HEED_FIXTURES "/tokenizers/words/tokenizer.json";
  const auto pair = json_lines(run({"tokenize", "--model", file, "--pair", "two", "one two", "three"}).out);
  ASSERT_EQ(pair.size(), 2u);
  // Truncated to five and padded to five, as the file specifies.
  EXPECT_EQ(pair[0].at("tokens"), Json::parse(R"(["[CLS]","one","[SEP]","two","[SEP]"])"));
  EXPECT_EQ(pair[1].at("offsets"), Json::parse("[[0,0],[0,5],[0,0],[0,3],[0,0]]"));
  EXPECT_EQ(json_lines(run({"tokenize", "--model", file, "one"}).out)[0].at("ids"),
            Json::parse("[1,4,2,3,3]"));
  EXPECT_EQ(run({"tokenize", "--model", file, "--decode", "1,4,2", "--pair", "x"}).status, 2);
  EXPECT_EQ(run({"tokenize", "--model", file + "x", "one"}).status, 1);
}

}  // namespace
}  // namespace heed::cli_test
