// Checks the similarities, searches and token vectors of embed against sums in double over the vectors that
// it prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

TEST(Embed, ComparesAndSearches) {
  const Folder folder;
  const std::string model = encoder("bert"), file = folder / "v.npy";
  const Words texts{"tea is hot", "the cat sat on the mat", "a cat sat", "Ada"};
  std::string input;
  for (const std::string& text : texts) input += text + "\n";
  const std::vector<Json> vectors = json_lines(run({"embed", "--model", model}, input).out);
  const Json query = Json::parse(run({"embed", "--model", model, "the cat"}).out);
  const auto dot = [](const Json& a, const Json& b) {
    double sum = 0;
    for (std::size_t d = 0; d < a.size(); ++d) sum += a[d].get<double>() * b[d].get<double>();
    return sum;
  };
  const auto cosine = [&](const Json& a, const Json& b) {
    return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
  };
  const std::vector<Json> rows =
      json_lines(output_of({"embed", "--model", model, "--similarity", "--json"}, input));
  ASSERT_EQ(rows.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(rows[i][j], cosine(vectors[i], vectors[j]), 1e-5);
  }
  const Words search{"embed", "--model", model, "--query", "the cat", "--top-k", "3"};
  for (const bool dots : {false, true}) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < 4; ++i)
      order.emplace_back(dots ? -dot(query, vectors[i]) : -cosine(query, vectors[i]), i);
    std::sort(order.begin(), order.end());
    Words words = search;
    if (dots) words.insert(words.end(), {"--similarity-fn", "dot"});
    words.push_back("--json");
    const Json found = Json::parse(output_of(words, input));
    ASSERT_EQ(found.size(), 3u);
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(found[k].at("line"), order[k].second + 1);
      EXPECT_EQ(found[k].at("text"), texts[order[k].second]);
      EXPECT_NEAR(found[k].at("score"), -order[k].first, 1e-4);
    }
  }
  // The same from previously computed vectors.
  ASSERT_EQ(run({"embed", "--model", model, "--output", file}, input).status, 0);
  Words stored = search;
  stored.insert(stored.end(), {"--vectors", file});
  const Words with_texts = lines(run(search, input).out), without = lines(run(stored).out);
  ASSERT_EQ(without.size(), 3u);
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_EQ(without[k], with_texts[k].substr(0, with_texts[k].rfind('\t')));
  spill(folder / "texts.txt", input);
  Words named = stored;
  named.insert(named.end(), {"--texts", folder / "texts.txt"});
  EXPECT_EQ(lines(run(named).out), with_texts);
  spill(folder / "texts.txt", "one\n");
  EXPECT_THAT(run(named).err,
              HasSubstr("texts.txt: expected a line for each of the 4 vectors of " + file + ", got 1 lines"));
  expect_error(1, search, "embed: missing texts to search (give them on stdin, as arguments, or their ");
  // The same as safetensors, which contain the numbers of the .npy file.
  const std::string tensors = folder / "v.safetensors", npy = slurp(file);
  ASSERT_EQ(run({"embed", "--model", model, "--output", tensors}, input).status, 0);
  const std::string stored_bytes = slurp(tensors);
  EXPECT_THAT(stored_bytes, HasSubstr("\"embeddings\""));
  const std::size_t bytes = 4 * 4 * query.size();
  EXPECT_EQ(stored_bytes.substr(stored_bytes.size() - bytes), npy.substr(npy.size() - bytes));
  spill(file, "not vectors, but a text");
  EXPECT_THAT(run(stored).err, HasSubstr("v.npy: expected an NPY file"));
  for (const Words& wrong :
       {Words{"--top-k", "2"}, Words{"--vectors", file}, Words{"--query", "a", "--similarity"},
        Words{"--query", "a", "--output", file}, Words{"--query", "a", "--texts", file},
        Words{"--query", "a", "--similarity-fn", "far"}, Words{"--pooling", "none", "--normalize"}}) {
    Words words{"embed", "--model", model};
    words.insert(words.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(run(words, input).status, 2) << wrong[0];
  }
}

TEST(Embed, GivesAVectorForEachToken) {
  const Folder folder;
  const std::string model = encoder("bert"), one = folder / "one.npy", all = folder / "all.safetensors";
  const Words words{"embed", "--model", model, "--pooling", "none"};
  const std::vector<Json> got = json_lines(output_of(words, "the cat sat\ntea\n"));
  ASSERT_EQ(got.size(), 2u);
  const Json encoded = Json::parse(run({"tokenize", "--model", model, "the cat sat"}).out);
  EXPECT_EQ(got[0].at("tokens"), encoded.at("tokens"));
  ASSERT_EQ(got[0].at("vectors").size(), encoded.at("tokens").size());
  const Json first = Json::parse(run({"embed", "--model", model, "--pooling", "cls", "the cat sat"}).out);
  EXPECT_EQ(got[0].at("vectors")[0], first);
  Words to_array = words;
  to_array.insert(to_array.end(), {"--output", one});
  EXPECT_THAT(run(to_array, "a\nb\n").err, HasSubstr("one.npy: expected one text"));
  ASSERT_EQ(run(to_array, "the cat sat\n").status, 0);
  EXPECT_THAT(slurp(one).substr(0, 128),
              HasSubstr("'shape': (" + std::to_string(encoded.at("tokens").size()) + ", 48)"));
  Words to_tensors = words;
  to_tensors.insert(to_tensors.end(), {"--output", all});
  ASSERT_EQ(run(to_tensors, "the cat sat\ntea\n").status, 0);
  EXPECT_THAT(slurp(all), HasSubstr("vectors.1"));
  EXPECT_THAT(slurp(all), HasSubstr("tokens.0"));
}

// Neither a positive of the same anchor, nor the anchor itself, nor what is nearer than the positive.
TEST(Embed, MinesHardNegatives) {
  const Folder folder;
  const std::string model = encoder("bert"), pairs = folder / "pairs.jsonl", more = folder / "more.txt";
  const std::vector<std::pair<std::string, std::string>> rows{{"tea is hot", "the cup of tea is hot"},
                                                              {"tea is hot", "hot tea"},
                                                              {"the cat sat", "a cat sat on the mat"},
                                                              {"a river ran", "the river ran past the town"}};
  std::string text;
  for (const auto& [anchor, positive] : rows)
    text += Json{{"anchor", anchor}, {"positive", positive}}.dump() + "\n";
  spill(pairs, text);
  spill(more, "tea is hot\nAda\nthe mat\n");
  const Words mine{"embed", "--model", model, "--mine-negatives", pairs, "--texts", more, "--negatives", "4"};
  const Result result = run(mine);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr(" negatives of 4 pairs; "));
  const std::vector<Json> mined = json_lines(result.out);
  ASSERT_EQ(mined.size(), 4u);
  const auto cosine = [&](const std::string& a, const std::string& b) {
    return json_lines(output_of({"embed", "--model", model, "--similarity", "--json", a, b}))
        .at(0)
        .at(1)
        .get<double>();
  };
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(mined[i].at("anchor"), rows[i].first);
    EXPECT_EQ(mined[i].at("positive"), rows[i].second);
    const double most = cosine(rows[i].first, rows[i].second);
    double before = 1;
    for (int n = 1; mined[i].contains("negative_" + std::to_string(n)); ++n) {
      const std::string negative = mined[i].at("negative_" + std::to_string(n));
      EXPECT_NE(negative, rows[i].first);
      const bool is_right = i < 2 && (negative == rows[0].second || negative == rows[1].second);
      EXPECT_FALSE(is_right) << negative;
      const double score = cosine(rows[i].first, negative);
      EXPECT_LE(score, std::min(most, before) + 1e-5);
      before = score;
    }
  }
  Words none = mine;
  none.insert(none.end(), {"--margin", "3"});
  EXPECT_THAT(run(none).out, testing::Not(HasSubstr("negative_")));
  spill(pairs, "{\"anchor\": \"a\", \"positive\": \"b\", \"score\": 1}\n");
  EXPECT_THAT(run(mine).err, HasSubstr("pairs.jsonl:1: expected an anchor and its positive alone, got more"));
  EXPECT_THAT(run({"embed", "--model", model, "--mine-negatives", pairs, "a"}).err,
              HasSubstr("--mine-negatives: cannot be combined with texts"));
}

}  // namespace
}  // namespace heed::cli_test
