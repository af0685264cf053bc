// The small models that come with heed do what their cards say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

TEST(ShippedModels, ReadReviews) {
  const Result labels = run({"classify", "--model", "reviews"},
                            "I expected a masterpiece and got a complete waste of time.\n"
                            "A moving story, told with great care.\n");
  EXPECT_THAT(labels.out, testing::MatchesRegex("negative 0\\.9[0-9]+\npositive 0\\.9[0-9]+\n"))
      << labels.err;
  const Result filled = run({"fill", "--model", "reviews-mlm", "This film was a complete [MASK] of time."});
  EXPECT_THAT(filled.out, testing::StartsWith("waste 0.99")) << filled.err;
}

// As editors on Windows write them: in every file of a model, and in the texts.
TEST(ShippedModels, ByteOrderMarksAndLineEndsDoNotMatter) {
  const auto windows = [](const std::string& text) {
    std::string marked = "\xEF\xBB\xBF";
    for (const char c : text) marked += c == '\n' ? "\r\n" : std::string(1, c);
    return marked;
  };
  const Folder folder;
  const std::filesystem::path model = folder / "model";
  std::filesystem::copy(HEED_SOURCE "/models/reviews", model);
  for (const auto& file : std::filesystem::directory_iterator(model)) {
    std::filesystem::permissions(file, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
    if (file.path().extension() != ".safetensors") spill(file.path(), windows(slurp(file.path())));
  }
  const std::string texts = "a good film\na bad one\n";
  const Result plain = run({"classify", "--model", "reviews"}, texts);
  EXPECT_EQ(run({"classify", "--model", model}, windows(texts)).out, plain.out);
  spill(folder / "data.tsv", windows("positive\ta good film\nnegative\ta bad one\n"));
  spill(folder / "plain.tsv", "positive\ta good film\nnegative\ta bad one");
  EXPECT_EQ(run({"evaluate", "--model", model, "--data", folder / "data.tsv"}).out,
            run({"evaluate", "--model", "reviews", "--data", folder / "plain.tsv"}).out);
}

TEST(ShippedModels, LookAtPhotographs) {
  const std::string photo = std::string(HEED_FIXTURES) + "/image/pictures/photo.jpg";
  const Json labels =
      json_lines(output_of({"classify", "--model", "cifar10", "--json", "--top-k", "10", photo})).at(0);
  ASSERT_EQ(labels.size(), 10u);
  double sum = 0;
  std::set<std::string> names;
  for (const Json& label : labels) {
    sum += label.at("score").get<double>();
    names.insert(label.at("label").get<std::string>());
  }
  EXPECT_NEAR(sum, 1, 1e-5);
  EXPECT_EQ(names, (std::set<std::string>{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog",
                                          "horse", "ship", "truck"}));
  const Json maps = json_lines(output_of({"attend", "--model", "cifar10", "--json", "--layers", "5",
                                          "--heads", "mean", photo}))
                        .at(0);
  EXPECT_THAT(maps.dump(), HasSubstr("photo.jpg"));
}

TEST(ShippedModels, WriteAPlay) {
  const Result play =
      run({"generate", "--model", "shakespeare", "--prompt", "KING RICHARD", "--max-new-tokens", "5"});
  EXPECT_EQ(play.out, " II:\n\n") << play.err;
}

TEST(ShippedModels, TextsThatAreTooLongAreCounted) {
  const Folder folder;
  std::string lines = "positive\tgood\n";
  const std::string text = [] {
    std::string words;
    for (int i = 0; i < 600; ++i) words += "good ";
    return words;
  }();
  for (int i = 0; i < 3; ++i) lines += "positive\t" + text + "\n";
  spill(folder / "reviews.tsv", lines);
  const Result result = run({"evaluate", "--model", "reviews", "--data", folder / "reviews.tsv"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("text 2: more than the 512 tokens"));
  EXPECT_THAT(result.err, HasSubstr("2 more texts: more than the 512 tokens"));
  EXPECT_THAT(result.err, testing::Not(HasSubstr("text 3")));
}

// 56 heads and 5.4 million parameters: 1e10 multiply-adds are those of 33 positions, on any machine.
TEST(ShippedModels, PagesHaveAblationWhereItIsLittleWork) {
  const Folder folder;
  const auto page = [&](const Words& options) {
    Words words{"attend", "--model", "en-fr", "--output", folder / "page.html"};
    words.insert(words.end(), options.begin(), options.end());
    EXPECT_EQ(run(words).status, 0);
    return slurp(folder / "page.html");
  };
  std::string text;
  for (int i = 0; i < 40; ++i) text += "cat ";
  EXPECT_THAT(page({"I like tea.", "--target", "J'aime le"}), HasSubstr("\"ablation\":["));
  EXPECT_THAT(page({text, "--target", "chat"}), testing::Not(HasSubstr("\"ablation\":[")));
  EXPECT_THAT(page({text, "--target", "chat", "--heads", "0"}), HasSubstr("\"ablation\":["));
}

}  // namespace
}  // namespace heed::cli_test
