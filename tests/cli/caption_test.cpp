// heed caption on image files. What it writes is compared with transformers in tests/tasks/caption_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kCaptioned = HEED_FIXTURES "/image/pictures/", kCaptioner = HEED_FIXTURES "/vit-gpt2";
const std::string kPhotograph = kCaptioned + "photo.jpg", kDrawing = kCaptioned + "alpha.png";

// The first greedy captions and the best beams of a fixture.
std::vector<Json> expected_captions(bool beams, const std::string& model = kCaptioner) {
  std::vector<Json> runs;
  for (const Json& run : read_json(model + "/captions.json")) {
    const std::string file = run.at("file");
    if (run.at("options").contains("num_beams") == beams && (file == "photo.jpg" || file == "alpha.png"))
      runs.push_back(run);
  }
  return runs;
}

TEST(Caption, IsALinePerImageHoweverTheyAreGiven) {
  std::string wanted;
  for (const Json& run : expected_captions(false)) wanted += run.at("texts")[0].get<std::string>() + "\n";
  const Words command{"caption", "--model", kCaptioner, "--max-new-tokens", "12"};
  const auto with = [&](Words words, const std::string& input = "") {
    words.insert(words.begin(), command.begin(), command.end());
    return output_of(words, input);
  };
  EXPECT_EQ(with({kPhotograph, kDrawing}), wanted);
  EXPECT_EQ(with({kPhotograph, kDrawing, "--batch-tokens", "1"}), wanted);
  EXPECT_EQ(with({}, kPhotograph + "\n" + kDrawing + "\n"), wanted);
  EXPECT_EQ(with({kPhotograph}) + with({kDrawing}), wanted);  // streamed
  EXPECT_EQ(output_of({"caption", "--model", HEED_FIXTURES "/trocr", "--max-new-tokens", "12", kPhotograph}),
            expected_captions(false, HEED_FIXTURES "/trocr")[0].at("texts")[0].get<std::string>() + "\n");
}

TEST(Caption, AsJsonHasTheIdsAndTheScores) {
  const std::vector<Json> lines =
      json_lines(output_of({"caption", "--model", kCaptioner, "--json", "--num-beams", "4",
                            "--num-return-sequences", "2", "--max-new-tokens", "9", kPhotograph, kDrawing}));
  const std::vector<Json> runs = expected_captions(true);
  ASSERT_EQ(lines.size(), runs.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("ids"), runs[i].at("new_tokens")[0]);
    EXPECT_EQ(lines[i].at("text"), runs[i].at("texts")[0]);
    EXPECT_EQ(lines[i].at("finish_reason"), "length");
    ASSERT_EQ(lines[i].at("sequences").size(), 2u);
    EXPECT_EQ(lines[i].at("sequences")[1].at("text"), runs[i].at("texts")[1]);
    EXPECT_GT(lines[i].at("score"), lines[i].at("sequences")[1].at("score"));
  }
}

TEST(Caption, BadImagesFailAtTheEnd) {
  const Folder folder;
  const std::string cut = folder.path() / "cut.jpg";
  spill(cut, slurp(kPhotograph).substr(0, 300));
  const Words command{"caption", "--model", kCaptioner, "--max-new-tokens", "3"};
  const auto with = [&](Words words) {
    words.insert(words.begin(), command.begin(), command.end());
    return run(words);
  };
  const Result plain = with({kPhotograph, cut, "none.png", kDrawing});
  EXPECT_EQ(plain.status, 1);
  const Words rows = lines(plain.out);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1] + rows[2], "");
  EXPECT_EQ(rows[0] + "\n" + rows[3] + "\n",
            output_of({"caption", "--model", kCaptioner, "--max-new-tokens", "3", kPhotograph, kDrawing}));
  EXPECT_THAT(plain.err, HasSubstr("line 2: " + cut + ": expected a whole image"));
  EXPECT_THAT(plain.err, HasSubstr("line 3: none.png: not found"));
  const Result json = with({cut, kDrawing, "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_THAT(json_lines(json.out)[0].at("error"), HasSubstr("a truncated one"));
  EXPECT_TRUE(json_lines(json.out)[1].contains("text"));
  const Result only = with({cut});  // of which nothing is streamed
  EXPECT_EQ(only.status, 1);
  EXPECT_EQ(only.out, "\n");
}

TEST(Caption, OfWrongModelsSaysWhy) {
  const Folder folder;
  const std::string copy = folder.path() / "model";
  const auto without = [&](const char* file) {
    fs::remove_all(copy);
    fs::copy(kCaptioner, copy);
    fs::remove(copy + "/" + file);
    return Words{"caption", "--model", copy, kPhotograph};
  };
  expect_error(1, without("preprocessor_config.json"), "preprocessor_config.json");
  expect_error(1, without("tokenizer.json"), "tokenizer");
  const std::string fixtures = HEED_FIXTURES "/";
  expect_error(1, {"caption", "--model", fixtures + "bart", kPhotograph},
               "a bart encoder-decoder cannot caption images (use heed translate)");
  expect_error(1, {"caption", "--model", fixtures + "decoders/gpt2", kPhotograph},
               "a gpt2 decoder cannot caption images (use heed generate)");
  expect_error(1, {"caption", "--model", fixtures + "vit", kPhotograph},
               "a vit image model cannot caption images (use heed classify)");
  expect_error(1, {"caption", "--model", fixtures + "moonshine", kPhotograph}, "cannot caption images");
  expect_error(1, {"translate", "--model", kCaptioner, "a"},
               "a vision-encoder-decoder image model cannot translate (use heed caption)");
  expect_error(2, {"caption", kPhotograph}, "--model");
}

// Weights are those of transformers 5.24 for this file and caption: t he _c at s.
TEST(AttendCaption, ShowsWhatEachWordAttendsTo) {
  const Folder folder;
  const Words command{"attend", "--model", kCaptioner, kPhotograph, "--target", "the cats", "--quiet"};
  const auto with = [&](Words words) {
    words.insert(words.begin(), command.begin(), command.end());
    return words;
  };
  const Json picture = Json::parse(output_of(with({"--json"})));
  EXPECT_EQ(picture.at("title"), "photo.jpg → the cats");
  EXPECT_EQ(picture.at("tokens").at("cross").at("queries"), Json({"t", "he", "Ġc", "at", "s"}));
  EXPECT_EQ(picture.at("tokens").at("cross").at("keys")[0], "[CLS]");
  EXPECT_EQ(picture.at("tokens").at("cross").at("keys")[16], "3,3");
  const Json heads = Json::parse(output_of(with({"--json", "--layers", "1", "--heads", "2"})));
  const std::vector<double> first{0.0047572, 0.0097966, 0.0019243}, last{0.0149523, 0.0254254, 0.0112486};
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(heads.at("maps")[0].at("weights")[0][i], first[i], 1e-5);
    EXPECT_NEAR(heads.at("maps")[0].at("weights")[4][i], last[i], 1e-5);
  }

  output_of(with({"--output", folder.path() / "words.svg"}));
  const std::string svg = slurp(folder.path() / "words.svg");
  EXPECT_THAT(svg, HasSubstr(">cross-attention, layer 1, mean of heads</text>"));
  EXPECT_THAT(svg, HasSubstr(">the</text>"));
  EXPECT_THAT(svg, HasSubstr(">cats</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>3,1: 0.283</title>"));  // the
  EXPECT_THAT(svg, HasSubstr("<title>2,3: 0.162</title>"));  // cats
  EXPECT_THAT(output_of(command), HasSubstr("layer 1, mean of heads\nthe       cats\n"));
  EXPECT_THAT(output_of(with({"--layers", "all"})), HasSubstr("layer 0, mean of heads\nthe "));
  EXPECT_THAT(output_of(with({"--kind", "encoder", "--layers", "0"})),
              HasSubstr("what the class token attends to"));
  EXPECT_THAT(output_of(with({"--kind", "decoder", "--layers", "0"})), HasSubstr("decoder self-attention"));
  for (const char* file : {"words.png", "words.html", "words.npy"}) {
    const Words written = with({"--kind", "cross", "--output", folder.path() / file});
    output_of(written);
    EXPECT_GT(fs::file_size(folder.path() / file), 1000u) << file;
  }
  expect_error(2, with({"--patch", "1,1"}), "--patch: expected attention of the encoder (--kind encoder)");
  expect_error(2, with({"--pair", "a"}), "--pair: expected an encoder");
}

TEST(AttendCaption, WritesTheCaptionItself) {
  const Words words{"attend", "--model", kCaptioner, kDrawing, "--max-new-tokens", "4"};
  const std::string shown = output_of(words);
  EXPECT_THAT(shown, HasSubstr("alpha.png → she�n6\n"));
  EXPECT_THAT(shown, HasSubstr("layer 1, mean of heads\nshe�n6\n"));
  expect_error(1, {"attend", "--model", kCaptioner, "none.png"}, "none.png: not found");
  const Folder folder;
  const std::string copy = folder.path() / "model";
  fs::copy(kCaptioner, copy);
  fs::remove(copy + "/tokenizer.json");
  expect_error(1, {"attend", "--model", copy, kDrawing}, "tokenizer");
}

}  // namespace
}  // namespace heed::cli_test
