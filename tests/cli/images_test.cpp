// Models of texts and images on image files. Scores and vectors are those of transformers 5.24
// (CLIPImageProcessorPil, CLIPModel, SiglipImageProcessorPil, SiglipModel) for the same files and texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "command.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kPictures = HEED_FIXTURES "/image/pictures/";
const Words kFiles{kPictures + "photo.jpg", kPictures + "alpha.png"};

// A fixture with the settings of a processor.
struct Prepared {
  Folder folder;
  std::string path;
  Prepared(const std::string& fixture, const std::string& processor) {
    fs::copy(std::string(HEED_FIXTURES "/") + fixture, folder.path(), fs::copy_options::recursive);
    path = folder.path().string();
    spill(path + "/preprocessor_config.json", processor);
  }
};
struct Clip : Prepared {
  Clip()
      : Prepared("clip", R"({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 32},
                             "crop_size": {"height": 32, "width": 32}})") {}
};
struct Siglip : Prepared {
  Siglip()
      : Prepared("siglip",
                 R"({"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32},
                               "resample": 3})") {}
};

Words by_labels(const std::string& model) {
  return {"classify", "--model", model,      "--top-k",          "0", "--labels", "a photo of a cat",
          "--labels", "dogs",    "--labels", "The house is red."};
}

TEST(Labels, OfTheCommandLineAreThoseOfTransformers) {
  using Scores = std::map<std::string, double>;
  const Clip clip;
  const Siglip siglip;
  const std::vector<std::pair<std::string, std::vector<Scores>>> wanted{
      {clip.path,
       {{{"a photo of a cat", 0.40480337}, {"dogs", 0.37549528}, {"The house is red.", 0.21970135}},
        {{"a photo of a cat", 0.51181614}, {"dogs", 0.21388182}, {"The house is red.", 0.27430212}}}},
      {siglip.path,
       {{{"a photo of a cat", 0.06731769}, {"dogs", 0.1648189}, {"The house is red.", 0.14821965}},
        {{"a photo of a cat", 0.05820885}, {"dogs", 0.24268135}, {"The house is red.", 0.17566964}}}}};
  for (const auto& [model, images] : wanted) {
    for (const char* batch : {"1", "4096"}) {
      Words words = by_labels(model);
      words.insert(words.end(), {"--batch-tokens", batch});
      const Result result = run_json(words, kFiles);
      ASSERT_EQ(result.status, 0) << result.err;
      const std::vector<Json> lines = json_lines(result.out);
      ASSERT_EQ(lines.size(), images.size());
      for (std::size_t i = 0; i < lines.size(); ++i) {
        ASSERT_EQ(lines[i].size(), 3u);
        for (const Json& one : lines[i])
          EXPECT_NEAR(one.at("score"), images[i].at(one.at("label")), 2e-6) << model << " " << one;
        EXPECT_GE(lines[i][0].at("score"), lines[i][1].at("score"));
      }
    }
  }
}

TEST(Labels, MayStandInATemplate) {
  const Siglip siglip;
  const std::vector<Json> lines =
      json_lines(run_json({"classify", "--model", siglip.path, "--top-k", "0", "--template", "a photo of {}",
                           "--labels", "a cat", "--labels", "dogs"},
                          {kFiles[0]})
                     .out);
  ASSERT_EQ(lines.size(), 1u);
  for (const Json& one : lines[0]) {
    if (one.at("label") == "a cat") {
      EXPECT_NEAR(one.at("score"), 0.06731769, 2e-6);
    }
  }
}

TEST(Labels, ABadImageLeavesTheOthersAsTheyAre) {
  const Siglip siglip;
  Words words = by_labels(siglip.path);
  words.insert(words.end(), {kFiles[0], "none.png", kFiles[0]});
  const Result result = run(words);
  EXPECT_EQ(result.status, 1);
  const Words rows = lines(result.out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], "dogs 0.1648\tThe house is red. 0.1482\ta photo of a cat 0.0673");
  EXPECT_EQ(rows[1], "");
  EXPECT_EQ(rows[2], rows[0]);
  EXPECT_THAT(result.err, HasSubstr("line 2: none.png: not found"));
}

TEST(EmbedImages, AreTheFeaturesOfTransformers) {
  const Clip clip;
  const Siglip siglip;
  const auto begins = [](const Json& row, const std::vector<double>& wanted) {
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(row[i], wanted[i], 1e-5);
  };
  const std::vector<Json> images =
      json_lines(output_of({"embed", "--model", clip.path, "--image", kFiles[0], kFiles[1]}));
  ASSERT_EQ(images.size(), 2u);
  begins(images[0], {2.0515237, 0.07061972, -0.57063425});
  begins(images[1], {0.48189226, 2.3151717, 1.3334309});
  begins(Json::parse(output_of({"embed", "--model", clip.path, "a photo of a cat"})),
         {0.06449579, 0.69907194, 1.6897342});
  begins(Json::parse(output_of({"embed", "--model", siglip.path, "--image", kFiles[0]})),
         {0.86758196, 6.1913662, 1.7992331});
  // Padding counts in SigLIP, and does not depend on the other texts.
  const std::vector<Json> texts =
      json_lines(output_of({"embed", "--model", siglip.path, "a photo of a cat", "The house is red."}));
  begins(texts[0], {-1.3857118, -1.2940694, -1.087554});
  EXPECT_EQ(texts[1], Json::parse(output_of({"embed", "--model", siglip.path, "The house is red."})));
}

TEST(EmbedImages, AreSearchedByTexts) {
  const Clip clip;
  for (const char* normalize : {"", "--normalize"}) {
    Words words{"embed",   "--model", clip.path, "--image",
                kFiles[0], kFiles[1], "--query", "a photo of a cat"};
    if (*normalize != 0) words.push_back(normalize);
    const Words rows = lines(output_of(words));
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0], "0.0503\t2\t" + kFiles[1]);
    EXPECT_EQ(rows[1], "-0.0028\t1\t" + kFiles[0]);
  }
}

TEST(EmbedImages, OfOtherImageModelsAreTheClassToken) {
  const std::string vit = HEED_FIXTURES "/vit";
  const Json row = Json::parse(output_of({"embed", "--model", vit, "--image", kFiles[0]}));
  EXPECT_EQ(row.size(), 48u);
  EXPECT_EQ(row, Json::parse(output_of({"embed", "--model", vit, "--image", "--pooling", "cls", kFiles[0]})));
  const Result failed = run({"embed", "--model", vit, "--image", "none.png", kFiles[0]});
  EXPECT_EQ(failed.status, 1);
  const Words rows = lines(failed.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], "");
  EXPECT_EQ(Json::parse(rows[1]), row);
}

Json attention_of(const std::string& model, const Words& more) {
  Words words{"attend", "--model", model, kFiles[0], "--json", "--heads", "all"};
  words.insert(words.end(), more.begin(), more.end());
  return Json::parse(output_of(words));
}

std::set<std::string> kinds_of(const Json& picture) {
  std::set<std::string> kinds;
  for (const Json& map : picture.at("maps")) kinds.insert(map.at("kind").get<std::string>());
  return kinds;
}

TEST(AttendTowers, WeightsAreThoseOfTransformers) {
  const Clip clip;
  const Siglip siglip;
  const auto begins = [](const Json& picture, const std::string& kind, bool last,
                         const std::vector<double>& wanted) {
    const auto& maps = picture.at("maps");
    const auto map =
        std::find_if(maps.begin(), maps.end(), [&](const Json& one) { return one.at("kind") == kind; });
    ASSERT_NE(map, maps.end()) << kind;
    EXPECT_EQ(map->at("head"), 0);
    const Json& row = last ? map->at("weights").back() : map->at("weights").front();
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(row[i], wanted[i], 1e-6) << kind;
  };
  const Words text{"--text", "dogs"};
  begins(attention_of(clip.path, text), "image", false, {0.0017946, 0.0536539, 0.0063111});
  begins(attention_of(clip.path, text), "text", true, {0.6365794, 0.2786156, 0.084805});
  begins(attention_of(siglip.path, text), "image", false, {0.0221829, 0.1403231, 0.014044});
  begins(attention_of(siglip.path, text), "text", true, {0.0375205, 0.1220689, 0.2725228});
  begins(attention_of(siglip.path, text), "pooling", false, {0.0438854, 0.011711, 0.0498693});
}

TEST(AttendTowers, EachTextHasItsKindsAndItsGradient) {
  const Clip clip;
  const Siglip siglip;
  using Kinds = std::set<std::string>;
  EXPECT_EQ(kinds_of(attention_of(clip.path, {})), (Kinds{"image"}));
  EXPECT_EQ(kinds_of(attention_of(clip.path, {"--text", "dogs"})), (Kinds{"image", "text"}));
  const Words both{"--text", "a photo of a cat", "--text", "dogs"};
  EXPECT_EQ(kinds_of(attention_of(siglip.path, both)), (Kinds{"image", "pooling", "text 1", "text 2"}));
  Words gradient = both;
  gradient.insert(gradient.end(), {"--show", "gradient", "--kind", "image"});
  EXPECT_EQ(kinds_of(attention_of(clip.path, gradient)), (Kinds{"image for text 1", "image for text 2"}));
}

TEST(AttendTowers, FiguresShowTheImageAndTheLastTokenOfEachText) {
  const Clip clip;
  const Siglip siglip;
  const std::string cls = output_of({"attend", "--model", clip.path, kFiles[0], "--text", "dogs"});
  EXPECT_THAT(cls, HasSubstr("photo.jpg: dogs: what the class token attends to"));
  EXPECT_THAT(cls, HasSubstr("text self-attention, layer 0, mean of heads, weights in texts"));
  const std::string pooled = output_of({"attend", "--model", siglip.path, kFiles[0]});
  EXPECT_THAT(pooled, HasSubstr("photo.jpg: what the query of the pooling attends to"));
  EXPECT_THAT(pooled, HasSubstr("pooling, mean of heads"));
  EXPECT_THAT(output_of({"attend", "--model", siglip.path, kFiles[0], "--patch", "1,1"}),
              HasSubstr("what patch 1,1 attends to"));
  const Folder folder;
  for (const char* name : {"a.svg", "a.png", "a.html"}) {
    output_of({"attend", "--model", siglip.path, kFiles[0], "--text", "dogs", "--output", folder / name,
               "--quiet"});
    EXPECT_TRUE(fs::exists(folder / name));
  }
}

TEST(TwoTowers, WrongUsesSayWhy) {
  const Clip clip;
  const std::string vit = HEED_FIXTURES "/vit", bert = encoder("bert");
  const std::vector<std::tuple<int, Words, std::string>> cases{
      {1,
       {"classify", "--model", clip.path, kFiles[0]},
       "a clip dual encoder cannot classify images (use heed classify --labels)"},
      {2,
       {"classify", "--model", vit, kFiles[0], "--labels", "a"},
       "--labels: expected a model of texts and images"},
      {2,
       {"classify", "--model", clip.path, kFiles[0], "--template", "a {}"},
       "--template: missing --labels"},
      {2,
       {"classify", "--model", clip.path, kFiles[0], "--labels", "a", "--template", "b"},
       "a text with {}"},
      {2,
       {"classify", "--model", clip.path, kFiles[0], "--labels", "a", "--pair", "b"},
       "neither beside --labels"},
      {2,
       {"embed", "--model", clip.path, "--image", kFiles[0], "--pooling", "none"},
       "cannot be combined with --image"},
      {2,
       {"embed", "--model", clip.path, "--image", kFiles[0], "--prompt", "a"},
       "cannot be combined with --image"},
      {2,
       {"embed", "--model", clip.path, "--image", "--query", "a", "--vectors", "v.npy"},
       "expected --image or --vectors"},
      {1,
       {"embed", "--model", vit, "--image", kFiles[0], "--query", "a"},
       "cannot embed texts (use heed embed --image)"},
      {1,
       {"embed", "--model", bert, "--image", kFiles[0]},
       "a bert encoder cannot embed images (use heed embed)"},
      {1, {"translate", "--model", clip.path, "a"}, "a clip dual encoder cannot translate"},
      {1,
       {"lens", "--model", clip.path, "a"},
       "expected a classifier, got a clip image model without labels"},
      {1, {"attend", "--model", clip.path, "a"}, "a: not found"},
      {2,
       {"attend", "--model", vit, kFiles[0], "--text", "a"},
       "--text: expected a model of texts and images, such as clip, got vit"},
      {2,
       {"attend", "--model", clip.path, kFiles[0], "--kind", "cross"},
       "--kind: expected image, text or self, got cross"},
      {2,
       {"attend", "--model", clip.path, kFiles[0], "--show", "gradient"},
       "--show gradient: missing --text"},
      {1, {"attend", "--model", clip.path, "--input", HEED_FIXTURES "/clip/inputs.safetensors"}, ""},
      {2,
       {"forward", "--model", clip.path, "--text", "a"},
       "--input: missing (clip takes tensors, not text)"},
  };
  for (const auto& [status, words, message] : cases) {
    const Result result = run(words);
    EXPECT_EQ(result.status, status) << words[0] << " " << message << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  }
}

}  // namespace
}  // namespace heed::cli_test
