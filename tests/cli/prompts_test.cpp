// Files of prompts, metrics and ablations on the command line: means with their errors, numbers in files, and
// what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

// An encoder-decoder whose words are letters.
Words of_tiny(Words words, const Words& more = {}) {
  words.insert(words.end(), {"--model", tiny_model()});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json json_of(const Words& words) {
  const Result result = run(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? Json::parse(result.out) : Json();
}

std::string prompts_in(const Folder& folder) {
  const std::string file = folder / "prompts.tsv";
  spill(file,
        "clean\tcorrupted\ttarget\tA\tB\n"
        "a b c\ta d c\tc b a\ta\tb\n"
        "b c a\tb d a\tc b a\tb\tc\n");
  return file;
}

TEST(Prompts, PatchesAreMeansOfThePairs) {
  const Folder folder;
  const std::string file = prompts_in(folder);
  const auto one = [&](const Words& texts, const std::string& a, const std::string& b) {
    Words words{"patch"};
    words.insert(words.end(), texts.begin(), texts.end());
    return json_of(
        of_tiny(words, {"--target", "c b a", "--token", a, "--other", b, "--site", "heads", "--json"}));
  };
  const Json first = one({"a b c", "a d c"}, "a", "b"), second = one({"b c a", "b d a"}, "b", "c");
  const Json both = json_of(of_tiny({"patch", "--prompts", file, "--site", "heads", "--json"}));
  EXPECT_EQ(both["prompts"], 2);
  const auto number = [](const Json& value) { return value.get<double>(); };
  const double w = number(first["clean"]) - number(first["corrupted"]),
               v = number(second["clean"]) - number(second["corrupted"]);
  for (std::size_t i = 0; i < first["effects"][0].size(); ++i) {
    const double x = first["effects"][0][i], y = second["effects"][0][i], mean = (w * x + v * y) / (w + v);
    EXPECT_NEAR(number(both["effects"][0][i]), mean, 1e-4);
    EXPECT_NEAR(
        number(both["errors"][0][i]),
        std::abs(std::sqrt(2 * (std::pow(w * (x - mean), 2) + std::pow(v * (y - mean), 2))) / (w + v)), 1e-4);
  }
  EXPECT_THAT(run(of_tiny({"patch", "--prompts", file, "--site", "heads"})).out, HasSubstr(" ± "));
  const std::string csv = folder / "heads.csv";
  ASSERT_EQ(run(of_tiny({"patch", "--prompts", file, "--site", "heads", "--output", csv})).status, 0);
  EXPECT_THAT(slurp(csv), testing::StartsWith("layer,column,value,standard_error\n0,head 0,"));
}

TEST(Prompts, AreReadFromJsonLinesToo) {
  const Folder folder;
  const std::string table = prompts_in(folder), lines = folder / "prompts.jsonl";
  spill(lines, R"({"clean": "a b c", "corrupted": "a d c", "target": "c b a", "A": "a", "B": "b", "id": 7})"
               "\n"
               R"({"clean": "b c a", "corrupted": "b d a", "target": "c b a", "A": "b", "B": "c"})"
               "\n");
  const auto heads = [&](const std::string& file) {
    return json_of(of_tiny({"ablate", "--prompts", file, "--feed-forward", "--metric", "loss", "--json"}));
  };
  const Json from_table = heads(table)["metrics"][0]["heads"];
  EXPECT_EQ(from_table, heads(lines)["metrics"][0]["heads"]);
  EXPECT_EQ(from_table.back()["part"], "feed_forward");
  EXPECT_TRUE(from_table.front().contains("change_error"));
  const Json logit = json_of(of_tiny({"attribute", "logit", "--prompts", lines, "--json"}));
  EXPECT_EQ(logit["prompts"], 2);
  EXPECT_TRUE(logit["parts"][0].contains("error"));
}

TEST(Prompts, ErrorsNameFileRowAndKey) {
  const Folder folder;
  const auto refused = [&](const std::string& name, const std::string& text, const std::string& message) {
    spill(folder / name, text);
    const Result result = run(of_tiny({"patch", "--prompts", folder / name}));
    EXPECT_NE(result.status, 0) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  };
  refused("a.tsv", "text\tA\nx\ta\n", "a.tsv:1: expected a header with a column clean");
  refused("a.tsv", "clean\tA\nx\ta\ty\n", "a.tsv:2: expected 2 columns, as the header has, got 3");
  refused("a.tsv", "clean\tA\n\ta\n", "a.tsv:2: clean: expected a text, got none");
  refused("a.tsv", "clean\tA\na b\ta\n", "a.tsv:2: corrupted: expected a text, got none");
  refused("a.tsv", "", "a.tsv: expected a header and rows, got an empty file");
  refused("a.tsv", "clean\n", "a.tsv: expected at least one prompt, got none");
  refused("a.tsv", "clean\tcorrupted\ttarget\tA\tB\na b\ta d\tc\ta\tb c\n",
          "a.tsv:2: other: expected one token, got 2");
  refused("a.tsv", "clean\tcorrupted\ttarget\na b\ta d\tc\n", "a.tsv:2: token: missing");
  refused("a.jsonl", "{\"A\": \"a\"}\n", "a.jsonl:1: clean");
  refused("a.jsonl", "{\"clean\": 3}\n", "a.jsonl:1: clean: expected");
  refused("a.txt", "a", "--prompts: expected a file ending in .jsonl, .tsv or .csv, got");
}

TEST(Metrics, AreOptionsOfPatch) {
  const Words patch{"patch", "a b c", "a d c", "--target", "c b a"};
  const auto of = [&](const Words& options) {
    Words words = of_tiny(patch, options);
    words.insert(words.end(), {"--json", "--site", "heads"});
    return json_of(words);
  };
  const Json logit = of({"--token", "a"}),
             id = of(
                 {"--id", std::to_string(
                              json_lines(run(of_tiny({"tokenize", "a", "--no-special-tokens", "--json"})).out)
                                  .front()["ids"][0]
                                  .get<int>())});
  EXPECT_EQ(logit["metric"], "logit");
  EXPECT_EQ(logit["effects"], id["effects"]);
  const Json loss = of({"--token", "a", "--metric", "loss"}),
             p = of({"--token", "a", "--metric", "probability"});
  EXPECT_NEAR(std::exp(-loss["clean"].get<double>()), p["clean"].get<double>(), 1e-5);
  const Json kl = of({"--metric", "kl"});
  EXPECT_NEAR(kl["clean"].get<double>(), 0, 1e-6);
  EXPECT_GT(kl["corrupted"], 0);
  const Json compared = of({"--token", "a", "--other", "b", "--check-attribution"});
  EXPECT_TRUE(compared.contains("correlation"));
  EXPECT_EQ(compared["estimated"].size(), compared["effects"].size());
  const auto refused = [&](const Words& options, const std::string& message) {
    EXPECT_THAT(run(of_tiny(patch, options)).err, HasSubstr(message));
  };
  refused({}, "--token: missing (the token that the text should predict)");
  refused({"--token", "a", "--id", "3"}, "--token: expected one of --token and --id, got both");
  refused({"--id", "999999"}, "--id: expected an id below");
  refused({"--token", "a", "--metric", "logit-diff"}, "--other: missing");
  refused({"--token", "a", "--path", "1.0"}, "--path: expected LAYER.HEAD:q, :k or :v, LAYER.ff, or logits");
  refused({"--token", "a", "--path", "9.0:q"},
          "path: expected a head or feed-forward network in the encoder");
}

TEST(Paths, ListWhatReachesAReceiver) {
  const Words patch{"patch", "a b c", "a d c", "--target", "c b a", "--token", "a", "--other", "b"};
  const Json value = json_of(of_tiny(patch, {"--kind", "cross", "--path", "1.0:q", "--json"}));
  EXPECT_EQ(value["into"], "clean");
  EXPECT_EQ(value["senders"][0]["name"], "embed");
  for (const Json& sender : value["senders"]) {  // the target is the same, and cross-attention comes later
    if (sender["name"] == "embed" || (sender["name"] == "self_attn" && sender["layer"] == 0)) {
      EXPECT_NEAR(sender["effect"].get<double>(), 0, 1e-3) << sender;
    }
  }
  const Json keys = json_of(of_tiny(patch, {"--kind", "cross", "--path", "0.0:k", "--json"}));
  EXPECT_NE(keys["senders"][0]["effect"], 0);
  EXPECT_THAT(run(of_tiny(patch, {"--path", "1.0:v"})).out,
              HasSubstr("What reaches the values of head 1.0 directly"));
}

TEST(Ablations, ReplaceByZerosMeansAndOtherTexts) {
  const Folder folder;
  spill(folder / "reference.txt", "a d c b\nc c b a\n");
  const auto change = [&](const Words& options) {
    const Words words{"ablate", "a b c", "--target", "c b a", "--json"};
    return json_of(of_tiny(words, options))["metrics"][0]["heads"][0]["change"].get<double>();
  };
  const double zero = change({}),
               mean = change({"--ablation", "mean", "--reference", folder / "reference.txt"}),
               resample = change({"--ablation", "resample", "--reference", folder / "reference.txt"});
  EXPECT_NE(zero, mean);
  EXPECT_NE(mean, resample);
  EXPECT_EQ(zero, change({"--ablation", "zero"}));
}

}  // namespace
}  // namespace heed::cli_test
