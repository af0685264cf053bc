// Images that are compared with labels. The numbers are those of transformers 5.24 (CLIPImageProcessorPil,
// CLIPModel, SiglipImageProcessorPil, SiglipModel, eager attention) for the same image and texts.
#include "explore/views/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "explore/explorer.h"
#include "explore/sample_models.h"
#include "reference/error.h"
#include "reference/pack.h"

namespace heed::explore_test {
namespace {

using LabelAnswer = nlohmann::json;
using testing::HasSubstr;

const std::vector<std::string> kLabels{"a photo of a cat", "dogs", "The house is red."};

struct ComparedPhoto {
  explore::Explorer explorer;
  LabelAnswer request{{"model", 0}};

  explicit ComparedPhoto(const std::string& fixture) : explorer(explorer_of(sample_of_files(fixture, true))) {
    std::ifstream file(kFixtures / "image/pictures/photo.jpg", std::ios::binary);
    request["file"] =
        LabelAnswer::parse(explorer.add_file(0, {std::istreambuf_iterator<char>(file), {}}, kGoOn))["file"];
    request["labels"] = kLabels;
  }
  LabelAnswer run(const LabelAnswer& more = LabelAnswer::object()) {
    LabelAnswer asked = request;
    asked.update(more);
    return LabelAnswer::parse(explore::answer_to(explorer, "/api/run", asked.dump(), kGoOn));
  }
};

/// The last row of a head within the text.
std::vector<double> last_row_of(const ComparedPhoto& photo, const LabelAnswer& answer, int layer, int head) {
  const LabelAnswer& kinds = answer["data"]["kinds"];
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(), [](const LabelAnswer& one) { return one["kind"] == "text"; });
  for (const LabelAnswer& map : kind->at("maps")) {
    if (map["layer"] != layer || map["head"] != head || map["measure"] != "weights") continue;
    std::vector<double> numbers;
    for (const int code : codes_of_pack(photo.explorer.chunk(answer["run"], map["pack"]).value(), 16))
      numbers.push_back(code * map["largest"].get<double>() / 65535);
    numbers.erase(numbers.begin(), numbers.end() - std::ssize(kind->at("keys")));
    return numbers;
  }
  return {};
}

TEST(Labels, HaveTheLogitsOfTransformersAndTheAttentionOfOne) {
  struct Wanted {
    const char* fixture;
    std::vector<double> logits, probabilities;
    std::int64_t best;
    std::size_t tokens;  // of "dogs"
    std::vector<double> row;
  };
  const std::vector<Wanted> all{{"clip",
                                 {0.10957913, -0.04396613, 0.11966094},
                                 {0.34869999, 0.29906672, 0.35223329},
                                 2,
                                 3,
                                 {0.5202866, 0.1345228, 0.3451906}},
                                {"siglip",
                                 {-2.62864161, -1.62280142, -1.74863303},
                                 {0.06731769, 0.16481888, 0.14821969},
                                 1,
                                 16,
                                 {0.3096378, 0.0684728, 0.0362355, 0.0419540, 0.0465927, 0.0578700}}};
  for (const Wanted& wanted : all) {
    SCOPED_TRACE(wanted.fixture);
    ComparedPhoto photo(wanted.fixture);
    EXPECT_EQ(LabelAnswer::parse(photo.explorer.models())["models"][0]["takes_labels"], true);
    const LabelAnswer answer = photo.run();
    ASSERT_EQ(answer["predictions"].size(), 1u);
    EXPECT_EQ(answer["label"], wanted.best);
    const LabelAnswer& candidates = answer["predictions"][0]["candidates"];
    ASSERT_EQ(candidates.size(), 3u);
    EXPECT_EQ(candidates[0]["id"], wanted.best);
    for (const LabelAnswer& one : candidates) {
      const auto id = one["id"].get<std::size_t>();
      EXPECT_EQ(one["token"], kLabels[id]);
      EXPECT_NEAR(one["logit"], wanted.logits[id], 1e-5);
      EXPECT_NEAR(one["probability"], wanted.probabilities[id], 2e-6);
    }
    const LabelAnswer dogs = photo.run({{"label", 1}});
    EXPECT_EQ(dogs["label"], 1);
    const std::vector<double> row = last_row_of(photo, dogs, 1, 0);
    ASSERT_EQ(row.size(), wanted.tokens);
    for (std::size_t i = 0; i < wanted.row.size(); ++i) EXPECT_NEAR(row[i], wanted.row[i], 3e-5);
  }
}

TEST(Labels, FollowHeadsOfBothTowers) {
  ComparedPhoto photo("clip");
  const auto logits_of = [](const LabelAnswer& answer) {
    std::vector<double> logits(kLabels.size());
    for (const LabelAnswer& one : answer["predictions"][0]["candidates"]) logits[one["id"]] = one["logit"];
    return logits;
  };
  const std::vector<double> plain = logits_of(photo.run());
  for (const char* kind : {"encoder", "text"}) {
    SCOPED_TRACE(kind);
    const LabelAnswer head{{"kind", kind}, {"layer", 1}, {"head", 2}, {"factor", 0}};
    const LabelAnswer changed = photo.run({{"changes", {head}}});
    const std::vector<double> logits = logits_of(changed);
    for (const LabelAnswer& one : changed["predictions"][0]["candidates"]) {
      EXPECT_NE(one["change"], 0);
      EXPECT_NEAR(one["change"], one["logit"].get<double>() - plain[one["id"]], 1e-5);
    }
    LabelAnswer ablation = photo.request;
    ablation.update({{"id", 1}, {"kind", kind}, {"layer", 1}});
    const LabelAnswer changes = LabelAnswer::parse(
        explore::answer_to(photo.explorer, "/api/ablation", ablation.dump(), kGoOn))["change"];
    ASSERT_EQ(changes.size(), 4u);
    EXPECT_NEAR(changes[2]["change"], logits[1] - plain[1], 1e-5);
  }
}

TEST(Labels, WrongOnesAreRefused) {
  ComparedPhoto photo("clip");
  const auto refusal = [&](const LabelAnswer& more) { return error_of([&] { photo.run(more); }); };
  EXPECT_THAT(refusal({{"labels", {"a", ""}}}), testing::Eq("labels: \"∅\": expected at least one token"));
  EXPECT_THAT(refusal({{"labels", std::vector<std::string>(65, "a")}}),
              HasSubstr("a list of at most 64 texts"));
  EXPECT_THAT(refusal({{"label", 3}}), HasSubstr("a number below that of labels, 3"));
  const LabelAnswer head{{"kind", "text"}, {"layer", 0}, {"head", 0}, {"factor", 0}};
  EXPECT_THAT(refusal({{"labels", LabelAnswer::array()}, {"changes", {head}}}),
              HasSubstr("changes.0.kind: expected labels, whose tokens the head reads, got none"));
  const LabelAnswer patch{
      {"kind", "text"}, {"layer", 0}, {"head", 0}, {"patch", {{"file", photo.request["file"]}}}};
  EXPECT_THAT(refusal({{"changes", {patch}}}),
              HasSubstr("changes.0.patch: expected a head of the tower for images"));
  explore::Explorer vit = explorer_of(sample_of_files("vit"));
  std::ifstream file(kFixtures / "image/pictures/photo.jpg", std::ios::binary);
  vit.add_file(0, {std::istreambuf_iterator<char>(file), {}}, kGoOn);
  EXPECT_EQ(error_of([&] {
              explore::answer_to(vit, "/api/run", R"({"model": 0, "file": 1, "labels": ["a"]})", kGoOn);
            }),
            "labels: expected a model of texts and images with a tokenizer, such as clip, got vit");
}

}  // namespace
}  // namespace heed::explore_test
