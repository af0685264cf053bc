// heed attend --queries and --keys: the part of what is shown without them, in every output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Of "a b c </s>" and "c b a </s>".
Result attend_pair(const Words& options) {
  Words words{"attend", "--model", tiny_model(), "a b c", "--target", "c b a"};
  words.insert(words.end(), options.begin(), options.end());
  return run(words);
}

Json part_of(const Json& all, std::size_t begin, std::size_t end) {
  Json part = Json::array();
  for (std::size_t i = begin; i < end; ++i) part.push_back(all.at(i));
  return part;
}

TEST(AttendRanges, AreThePartOfTheWhole) {
  for (const char* kind : {"cross", "encoder", "decoder"}) {
    const Words words{
        "--json",
        "--kind",
        kind,
        "--heads",
        "all",
        "--show",
        std::string(kind) == "cross" ? "weights,norms,gradient" : "weights,norms,gradient,rollout"};
    const Json whole = Json::parse(attend_pair(words).out);
    Words ranged = words;
    ranged.insert(ranged.end(), {"--queries", "1:3", "--keys", ":2"});
    const Result result = attend_pair(ranged);
    ASSERT_EQ(result.status, 0) << result.err;
    const Json part = Json::parse(result.out);
    EXPECT_EQ(part.at("title"), "[queries 1:3, keys :2] " + whole.at("title").get<std::string>());
    const Json &labels = part.at("tokens").at(kind), &all = whole.at("tokens").at(kind);
    EXPECT_EQ(labels.at("queries"), part_of(all.at("queries"), 1, 3));
    EXPECT_EQ(labels.at("keys"), part_of(all.at("keys"), 0, 2));
    EXPECT_EQ(labels.at("range"), Json::parse(R"({"queries": [1, 3], "keys": [0, 2]})"));
    EXPECT_FALSE(all.contains("range"));
    ASSERT_EQ(part.at("maps").size(), whole.at("maps").size());
    for (std::size_t i = 0; i < part.at("maps").size(); ++i) {
      const Json &map = part.at("maps")[i], &of = whole.at("maps")[i];
      EXPECT_EQ(map.at("measure"), of.at("measure"));
      ASSERT_EQ(map.at("weights").size(), 2u);
      for (std::size_t q = 0; q < 2; ++q) {
        ASSERT_EQ(map.at("weights")[q].size(), 2u);
        for (std::size_t k = 0; k < 2; ++k)
          EXPECT_NEAR(map.at("weights")[q][k].get<double>(), of.at("weights")[q + 1][k].get<double>(), 1e-6);
      }
    }
  }
}

TEST(AttendRanges, AreInEveryOutput) {
  const Result terminal = attend_pair({"--keys", "3"});
  EXPECT_THAT(terminal.out, StartsWith("[keys 3] a b c → c b a\n"));
  EXPECT_EQ(terminal.out.find("▁b "), terminal.out.rfind("▁b ")) << "a row, and no column";
  const Folder folder;
  for (const char* name : {"map.svg", "map.html", "map.json", "map.npy", "map.png"}) {
    const Result result =
        attend_pair({"--queries", "2:", "--keys", "1:4", "--output", folder / name, "--kind", "cross"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr(std::string(name) + " (queries 2:, keys 1:4)"));
  }
  for (const char* name : {"map.svg", "map.html", "map.json"})
    EXPECT_THAT(slurp(folder / name), HasSubstr("[queries 2:, keys 1:4] ")) << name;
  EXPECT_THAT(slurp(folder / "map.npy"), HasSubstr("(4, 2, 3)"));
}

TEST(AttendRanges, OutsideTheTextAreErrorsThatNameItsLength) {
  const auto refused = [&](const Words& options, const char* message) {
    const Result result = attend_pair(options);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused({"--queries", "2:9"},
          "--queries: expected positions of the 4 of cross attention, counted from 0, got 2:9");
  refused({"--keys", "4:"}, "--keys: expected positions of the 4 of cross attention, counted from 0, got 4:");
  refused({"--keys", "3:2"}, "--keys: expected positions like 3, 2:5, 2: or :5, got 3:2");
  refused({"--queries", "a"}, "--queries: expected positions like 3, 2:5, 2: or :5, got a");
}

}  // namespace
}  // namespace heed::cli_test
