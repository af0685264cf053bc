// heed lens, heads and patch, and taps on the command line: results, figures, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string analyzed_gpt2() { return std::string(HEED_FIXTURES) + "/decoders/gpt2"; }

Words tap_words(const std::string& output, const Words& more) {
  Words words{"forward",  "--model", analyzed_gpt2(), "--input", analyzed_gpt2() + "/inputs.safetensors",
              "--output", output};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json tensors_of(const std::string& file) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return Json::parse(bytes.substr(8, length));
}

TEST(TapOptions, WriteValuesUnderTheirNames) {
  const Folder folder;
  const Result result = run(tap_words(
      folder / "out.safetensors",
      {"--taps", "decoder.layers.*.self_attn.weights[heads=1:3,queries=:2,keys=0],decoder.layers.1.mid",
       "--taps", "logits"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json tensors = tensors_of(folder / "out.safetensors");
  const std::string part = ".self_attn.weights[heads=1:3,queries=:2,keys=0]";
  EXPECT_EQ(tensors.at("decoder.layers.0" + part).at("shape"), Json({2, 2, 2, 1}));
  EXPECT_EQ(tensors.at("decoder.layers.1" + part).at("shape"), Json({2, 2, 2, 1}));
  EXPECT_EQ(tensors.at("decoder.layers.1.mid").at("shape"), Json({2, 16, 48}));
  EXPECT_EQ(tensors.at("logits").at("shape"), Json({2, 16, 512}));
}

// The bytes of one tensor of a file.
std::string bytes_of(const std::string& file, const std::string& tensor) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const Json offsets = tensors_of(file).at(tensor).at("data_offsets");
  const std::size_t begin = offsets[0], end = offsets[1];
  return bytes.substr(8 + length + begin, end - begin);
}

// What --taps writes is what --replace reads: the taps alone, not the inputs and outputs in the same file.
TEST(TapOptions, ReplaceValuesByThoseThatTapsWrote) {
  const Folder folder;
  const auto forward = [&](const std::string& text, const std::string& output, const Words& more) {
    Words words{"forward",  "--model", tiny_model(), "--text",       text,
                "--target", "c b a",   "--output",   folder / output};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? bytes_of(folder / output, "logits") : "";
  };
  const std::string values = folder / "values.safetensors";
  const std::string clean =
      forward("a b c", "values.safetensors",
              {"--taps", "encoder.layers.*.out,encoder.layers.0.self_attn.weights[heads=0:2,keys=1:]"});
  const std::string other = forward("a d c", "other.safetensors", {});
  EXPECT_EQ(forward("a d c", "patched.safetensors", {"--replace", values}), clean)
      << "the decoder reads the encoder's outputs alone";
  EXPECT_NE(other, clean);
}

TEST(TapOptions, ReplaceValuesByThoseOfAFile) {
  const Folder folder;
  const std::string values = folder / "values.safetensors", same = folder / "same.safetensors";
  ASSERT_EQ(run(tap_words(values, {"--taps", "decoder.layers.1.in[queries=3]"})).status, 0);
  // A file of this tap alone, without a list of taps.
  const std::string numbers = bytes_of(values, "decoder.layers.1.in[queries=3]");
  const auto file_with = [&](const std::string& name, const Json& shape) {
    const Json header{{name, {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {0, numbers.size()}}}}};
    const std::string text = header.dump();
    const std::uint64_t size = text.size();
    std::string file(reinterpret_cast<const char*>(&size), sizeof size);
    spill(folder / "patch.safetensors", file + text + numbers);
    return folder / "patch.safetensors";
  };
  const Words replace{"--replace", file_with("decoder.layers.1.in[queries=3]", {2, 1, 48})};
  ASSERT_EQ(run(tap_words(same, replace)).status, 0);
  EXPECT_EQ(bytes_of(values, "logits"), bytes_of(same, "logits")) << "replaced by the same numbers";

  const Result shape = run(tap_words(same, {"--replace", file_with("decoder.layers.1.in", {2, 1, 48})}));
  EXPECT_EQ(shape.status, 1);
  EXPECT_THAT(
      shape.err,
      HasSubstr("decoder.layers.1.in: expected a replacement of the shape [2, 16, 48], got [2, 1, 48]"));
  expect_error(1, tap_words(same, {"--replace", file_with("decoder.layers.7.in", {2, 1, 48})}),
               "no value of the model matches decoder.layers.7.in");
}

TEST(TapOptions, RefuseWhatDoesNotExist) {
  const Folder folder;
  const std::string out = folder / "out.safetensors";
  const Result nothing = run(tap_words(out, {"--taps", "decoder.layers.9.out"}));
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("no value of the model matches decoder.layers.9.out"));
  EXPECT_THAT(nothing.err, HasSubstr("decoder.layers.N.self_attn.heads"));
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_error(1, tap_words(out, {"--taps", "decoder.layers.0.self_attn.weights[heads=4]"}),
               "expected heads below 4");
  for (const char* bad : {"x[heads]", "x[rows=1]", "x[heads=2:]", "x[keys=3:1]", "[heads=1]", "x[heads=1"}) {
    const Result result = run(tap_words(out, {"--taps", bad}));
    EXPECT_EQ(result.status, 2) << bad;
    EXPECT_THAT(result.err, HasSubstr("--taps: expected NAME or NAME[")) << bad;
  }
}

// The tiny model is an encoder-decoder with a tokenizer.
Words with_tiny(Words words, const Words& more) {
  words.insert(words.end(), {"--model", tiny_model()});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Every weight is NaN: the results are nonsense, and each command says so once.
TEST(Analysis, TellsThatOutputsAreNotFinite) {
  const Folder folder;
  std::filesystem::copy(tiny_model(), folder.path());  // files alone
  std::string bytes = slurp(folder / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const float nan = std::nanf("");
  for (std::size_t at = 8 + header; at + sizeof nan <= bytes.size(); at += sizeof nan)
    std::memcpy(&bytes[at], &nan, sizeof nan);
  spill(folder / "model.safetensors", bytes);
  for (const Words& words :
       std::vector<Words>{{"lens", "a b c", "--target", "c b a"},
                          {"heads", "a b c", "--target", "c b a"},
                          {"attribute", "score", "a b c", "--target", "c b a", "--head", "1.0"},
                          {"attend", "a b c", "--target", "c b a"},
                          {"forward", "--text", "a b c", "--target", "c b a"}}) {
    const auto warning = [&](const std::string& model, bool quiet) {
      Words all = words;
      all.insert(all.end(), {"--model", model});
      if (quiet) all.emplace_back("--quiet");
      const Result result = run(all);
      EXPECT_EQ(result.status, 0) << words[0] << result.err;
      return result.err;
    };
    const std::string text = "heed: warning: outputs are not finite: weight ";
    const std::string err = warning(folder.path().string(), false);
    EXPECT_THAT(err, HasSubstr(text)) << words[0];
    EXPECT_THAT(err, HasSubstr("] is NaN (heed doctor tells more)\n")) << words[0];
    EXPECT_EQ(err.find(text), err.rfind(text)) << words[0];
    EXPECT_EQ(warning(folder.path().string(), true), "") << words[0];
    EXPECT_THAT(warning(tiny_model(), false), Not(HasSubstr("not finite"))) << words[0];
  }
}

TEST(Lens, ShowsEveryLayerAndPosition) {
  const Words lens = with_tiny({"lens", "a b c"}, {"--target", "c b a"});
  const Json value = json_lines(output_of([&] {
                       Words words = lens;
                       words.insert(words.end(), {"--top-k", "2", "--json"});
                       return words;
                     }()))
                         .front();
  ASSERT_GT(value["layers"].size(), 1u);
  EXPECT_EQ(value["layers"][0]["name"], "embed");
  for (const Json& layer : value["layers"]) {
    ASSERT_EQ(layer["positions"].size(), value["tokens"].size());
    for (const Json& best : layer["positions"]) {
      EXPECT_EQ(best.size(), 2u);
      EXPECT_GE(best[0]["probability"].get<double>(), best[1]["probability"].get<double>());
    }
  }
  const Folder folder;
  Words words = lens;
  words.insert(words.end(), {"--output", folder / "lens.svg"});
  ASSERT_EQ(run(words).status, 0);
  const std::string figure = slurp(folder / "lens.svg"),
                    title = std::filesystem::canonical(tiny_model()).filename();
  EXPECT_THAT(figure, testing::StartsWith("<svg"));
  EXPECT_THAT(figure, HasSubstr(">" + title + ": a b c → c b a</text>"));
  EXPECT_THAT(figure, HasSubstr("probability of the most probable"));
  words = lens;
  words.insert(words.end(), {"--output", folder / "lens.png", "--width", "120mm", "--title", "Mine"});
  ASSERT_EQ(run(words).status, 0);
  EXPECT_THAT(slurp(folder / "lens.png"), testing::StartsWith("\x89PNG"));
  words.back() = "My <title>";
  words[words.size() - 5] = folder / "lens.svg";
  ASSERT_EQ(run(words).status, 0);
  EXPECT_THAT(slurp(folder / "lens.svg"),
              testing::AllOf(HasSubstr(">My &lt;title&gt;</text>"), HasSubstr("width=\"453.543\"")));
  const Result table = run(lens);
  EXPECT_THAT(table.out, HasSubstr("Logit lens"));
  EXPECT_THAT(table.out, Not(HasSubstr("shade")));  // which it has on a terminal alone
  EXPECT_THAT(table.out, Not(HasSubstr("▁")));
  const Result colored = run_on_terminal(lens, "", 120);
  EXPECT_THAT(colored.out, HasSubstr("shade: probability"));
  EXPECT_THAT(colored.out, HasSubstr(";48;2;"));
}

// Of a map of attention on a terminal that answers with a color of its background, or not at all: the red of
// the legend's 0.
int red_of_zero(const std::string& answer, const Words& environment = {}) {
  ::unsetenv("COLORFGBG");
  for (std::size_t i = 0; i < environment.size(); i += 2)
    ::setenv(environment[i].c_str(), environment[i + 1].c_str(), 1);
  const Folder state;
  TerminalDialogue dialogue(with_tiny({"attend", "a b c"}, {"--target", "c b a"}), state.path());
  for (std::size_t i = 0; i < environment.size(); i += 2) ::unsetenv(environment[i].c_str());
  if (!answer.empty()) {
    dialogue.read_until("\x1b[c");
    dialogue.type(answer);
  }
  const std::string shown = dialogue.finish().out, zero = "\n0 \x1b[48;2;";
  const std::size_t at = shown.find(zero);
  return at == shown.npos ? -1 : std::stoi(shown.substr(at + zero.size()));
}

TEST(Terminal, IsAskedForItsBackground) {
  constexpr int kDark = 64, kLight = 192;
  EXPECT_GT(red_of_zero("\x1b]11;rgb:ffff/ffff/dddd\x1b\\\x1b[?62;c"), kLight);
  EXPECT_GT(red_of_zero("\x1b]11;rgb:f/f/f\a\x1b[?6c"), kLight);
  EXPECT_LT(red_of_zero("\x1b]11;rgb:2828/2c2c/3434\x1b\\\x1b[?62;c"), kDark);
  EXPECT_LT(red_of_zero("\x1b[?1;2c"), kDark) << "it does not know OSC 11";
  EXPECT_LT(red_of_zero(""), kDark) << "nobody answers";
  EXPECT_GT(red_of_zero("", {"HEED_BACKGROUND", "light"}), kLight);
  EXPECT_GT(red_of_zero("", {"COLORFGBG", "0;15"}), kLight);
  EXPECT_LT(red_of_zero("", {"COLORFGBG", "0;15", "HEED_BACKGROUND", "dark"}), kDark);
}

TEST(Heads, AreSortedByAColumn) {
  const Words words = with_tiny({"heads", "a b c"}, {"--target", "c b a", "--sort", "entropy"});
  const std::vector<Json> found = json_lines(run_json(words, {}).out);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_GT(found[0].size(), 1u);
  for (std::size_t i = 1; i < found[0].size(); ++i)
    EXPECT_GE(found[0][i - 1].at("entropy"), found[0][i].at("entropy"));
  const std::string first = found[0][0].at("layer").dump() + "." + found[0][0].at("head").dump();
  EXPECT_THAT(lines(output_of(words)).at(2), HasSubstr(first + "  "));
  expect_error(2, with_tiny({"heads", "a"}, {"--target", "c", "--sort", "mine"}),
               "--sort: expected one of previous, duplicate, induction, first, separator, entropy, distance, "
               "size, got mine");
}

TEST(Lens, RefusesWhatDoesNotFit) {
  const std::vector<std::pair<Words, std::string>> wrong{
      {with_tiny({"lens", "a"}, {}), "--target: missing"},
      {with_tiny({"lens", "a"}, {"--target", "a", "--output", "x.gif"}),
       "--output: expected a file ending in .svg, .pdf, .png, .csv or .npz, got x.gif"},
      {with_tiny({"lens", "a"}, {"--target", "a", "--output", "x.csv", "--width", "9"}),
       "--width: expected with --output FILE.svg, FILE.pdf or FILE.png"},
      {with_tiny({"lens", "a"}, {"--target", "a", "--output", "x.svg", "--width", "9cm"}),
       "--width: expected a width of 1 to 20000 pixels, such as 85mm or 640, got 9cm"},
      {with_tiny({"heads", "a"}, {"--kind", "mine"}), "--kind: expected cross, encoder or decoder, got mine"},
      {{"heads", "hi", "--model", HEED_FIXTURES "/../../models/shakespeare", "--kind", "encoder"},
       "--kind: expected decoder, the only kind of this model, got encoder"},
      {with_tiny({"patch", "a", "b"}, {"--target", "a", "--token", "a", "--other", "b", "--kind", "mine"}),
       "--kind: expected encoder, decoder or cross, got mine"},
      {with_tiny({"patch", "a", "b", "--site", "residual"},
                 {"--target", "a", "--token", "a", "--other", "b", "--kind", "cross"}),
       "--site: expected attention or heads with --kind cross, got residual"},
      {with_tiny({"heads", "a"}, {"--repeat", "4"}), "--repeat: expected texts or --repeat"},
      {with_tiny({"patch", "a", "b"}, {"--target", "a", "--token", "a", "--other", "b", "--site", "x"}),
       "--site: expected residual, attention, feed-forward or heads, got x"},
  };
  for (const auto& [words, message] : wrong) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  }
}

TEST(Heads, MeasuresEveryHead) {
  const Json heads = json_lines(output_of(with_tiny({"heads", "a b c d"}, {"--json"}))).front();
  ASSERT_FALSE(heads.empty());
  for (const Json& head : heads) {
    for (const char* share : {"previous", "duplicate", "induction", "first", "separator"}) {
      EXPECT_GE(head[share].get<double>(), 0) << share;
      EXPECT_LE(head[share].get<double>(), 1 + 1e-6) << share;
    }
  }
  EXPECT_THAT(output_of(with_tiny({"heads", "a b c d"}, {"--kind", "encoder"})), HasSubstr("entropy"));
}

TEST(Heads, OfCrossAttentionHaveWhatItsKeysAllow) {
  const Words words = with_tiny({"heads", "a b c d"}, {"--kind", "cross"});
  Words json = words;
  json.emplace_back("--json");
  const Json heads = json_lines(output_of(json)).front();
  for (const Json& head : heads) {
    EXPECT_GT(head["entropy"].get<double>(), 0);
    EXPECT_GT(head["size"].get<double>(), 0);
    for (const char* self : {"previous", "duplicate", "induction", "distance"})
      EXPECT_FALSE(head.contains(self)) << self;
  }
  const Result table = run(words);
  EXPECT_THAT(table.out, HasSubstr("Attention heads of cross-attention\nhead  first  separator  entropy  "));
  EXPECT_THAT(table.out, testing::Not(HasSubstr("previous")));
  const bool notes =
      table.out.find("dead") != std::string::npos || table.out.find("like ") != std::string::npos;
  EXPECT_EQ(table.out.find("note") != std::string::npos, notes) << "no column without a note";
}

TEST(Patch, FindsWhereTextsDiffer) {
  const Result longer =
      run(with_tiny({"patch", "a b", "a d c"}, {"--target", "c", "--token", "a", "--other", "b"}));
  EXPECT_EQ(longer.status, 1);
  EXPECT_THAT(
      longer.err,
      HasSubstr("patch: expected two texts with the same number of tokens, got 3 and 4 (\"·a ·b </s>\" and "
                "\"·a ·d ·c </s>\")"));
  const Words patch{"patch", "a b c", "a d c", "--target", "c b a", "--token", "a", "--other", "b"};
  for (const auto& [kind, site] : std::vector<std::pair<std::string, std::string>>{{"encoder", "residual"},
                                                                                   {"encoder", "heads"},
                                                                                   {"decoder", "residual"},
                                                                                   {"cross", "attention"},
                                                                                   {"cross", "heads"}}) {
    const Json value =
        json_lines(output_of(with_tiny(patch, {"--kind", kind, "--site", site, "--json"}))).front();
    EXPECT_EQ(value["site"], site);
    EXPECT_EQ(value["kind"], kind);
    EXPECT_EQ(value["effects"].size(), value["patched"].size());
    EXPECT_EQ(value["effects"].size(), value["layers"].size());
    EXPECT_NE(value["clean"], value["corrupted"]);
    if (site != "heads") {
      EXPECT_EQ(value["effects"][0].size(), value["tokens"].size()) << kind;
    }
  }
}

// The texts of an encoder-decoder differ in its source: where they do, the encoder's first layer carries all.
TEST(Patch, LooksIntoTheEncoderOfAnEncoderDecoder) {
  const Words patch{"patch", "a b c", "a d c", "--target", "c b a", "--token", "a", "--other", "b"};
  const Json value = json_lines(run(with_tiny(patch, {"--json"})).out).front();
  EXPECT_EQ(value["kind"], "encoder");
  EXPECT_EQ(value["site"], "residual");
  for (std::size_t i = 0; i < value["tokens"].size(); ++i)
    EXPECT_NEAR(value["effects"][0][i].get<double>(), value["tokens"][i].get<std::string>().ends_with("d"),
                1e-3);
  const Result table = run(with_tiny(patch, {}));
  EXPECT_THAT(table.out, HasSubstr("Patched: the residual stream before each layer"));
  EXPECT_THAT(table.out, testing::Not(HasSubstr("-0.00")));
  const Json cross = json_lines(run(with_tiny(patch, {"--json", "--kind", "cross"})).out).front();
  EXPECT_EQ(cross["site"], "attention");
}

// Of image files; the numbers are those of tests/inspect/analysis_test.cpp.
class ImageAnalysis : public testing::Test {
 protected:
  static std::string fixture(const std::string& name) { return std::string(HEED_FIXTURES) + "/" + name; }
  const std::string photo = fixture("image/pictures/photo.jpg"), other = fixture("image/pictures/text.png"),
                    vit = fixture("vit");
};

TEST_F(ImageAnalysis, LensReadsTheLabelsOfEachLayer) {
  const Result result = run({"lens", photo, "--model", vit, "--top-k", "2", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json layers = Json::parse(result.out).at("layers");
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].at("name"), "embed");
  ASSERT_EQ(layers[2].at("labels").size(), 2u);
  const Json classified = Json::parse(run({"classify", photo, "--model", vit, "--json"}).out);
  EXPECT_THAT(classified.dump(), HasSubstr(layers[2].at("labels")[0].at("label").get<std::string>()));
  const Result table = run({"lens", photo, "--model", vit});
  EXPECT_THAT(table.out, HasSubstr("layer"));
  EXPECT_THAT(table.out, HasSubstr("embed  LABEL_"));
}

TEST_F(ImageAnalysis, HeadsHaveMeasuresOfPatches) {
  const Result result = run({"heads", photo, other, "--model", vit, "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json heads = Json::parse(result.out);
  ASSERT_EQ(heads.size(), 8u);
  for (const char* key : {"first", "entropy", "distance", "size"}) EXPECT_TRUE(heads[5].contains(key)) << key;
  for (const char* key : {"previous", "duplicate", "induction", "separator"})
    EXPECT_FALSE(heads[5].contains(key)) << key;
  EXPECT_GT(heads[5].at("distance"), 0);
  EXPECT_THAT(run({"heads", photo, "--model", vit}).out, HasSubstr("distance in patches"));
  EXPECT_EQ(Json::parse(run({"heads", photo, "--model", fixture("clip"), "--json"}).out).size(), 8u);
  const std::string sound = fixture("sound/speech.wav");
  EXPECT_EQ(Json::parse(run({"ablate", sound, "--model", fixture("audio-spectrogram"), "--json"}).out)
                .at("metrics")[0]
                .at("heads")
                .size(),
            8u);
  EXPECT_EQ(Json::parse(run({"heads", sound, "--model", fixture("wav2vec2-ctc"), "--json"}).out).size(), 8u);
}

TEST_F(ImageAnalysis, PatchesBetweenTwoImages) {
  const Words labels{"--token", "LABEL_2", "--other", "3", "--json"};
  Words words{"patch", photo, other, "--model", vit};
  words.insert(words.end(), labels.begin(), labels.end());
  const Result result = run(words);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json patched = Json::parse(result.out);
  EXPECT_EQ(patched.at("site"), "heads");
  EXPECT_EQ(patched.at("kind"), "encoder");
  ASSERT_EQ(patched.at("effects").size(), 2u);
  EXPECT_EQ(patched.at("effects")[0].size(), 4u);
  words.insert(words.end(), {"--site", "residual"});
  const Json residual = Json::parse(run(words).out);
  EXPECT_EQ(residual.at("effects")[1].size(), 17u);
  EXPECT_EQ(residual.at("tokens")[1], "0,0");
}

TEST_F(ImageAnalysis, RefusesWhatDoesNotApply) {
  const auto refused = [&](int status, const Words& words, const std::string& message) {
    const Result result = run(words);
    EXPECT_EQ(result.status, status) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  };
  refused(2, {"lens", photo, "--model", vit, "--target", "a"},
          "--target: expected a model that reads text, got a vit image model");
  refused(2, {"heads", "--repeat", "4", "--model", vit}, "--repeat: expected a model that reads text");
  refused(2, {"heads", photo, "--separator", "a", "--model", vit},
          "--separator: expected a model that reads");
  refused(1, {"lens", photo, "--model", fixture("clip")},
          "lens: expected a classifier, got a clip image model");
  refused(1, {"patch", photo, other, "--model", fixture("siglip")}, "patch: expected a classifier");
  refused(1, {"patch", photo, photo, "--model", vit}, "for both images (choose them: --token, --other)");
  refused(2, {"patch", photo, other, "--model", vit, "--token", "dog"},
          "--token: expected a label of the model or its number, got dog");
  refused(2, {"patch", photo, other, "--model", vit, "--kind", "cross"},
          "--kind: expected encoder, the only kind of this model, got cross");
  refused(1, {"lens", fixture("vit/config.json"), "--model", vit}, "config.json: expected a PNG, JPEG");
  refused(1, {"lens", "no-such.jpg", "--model", vit}, "no-such.jpg");
  refused(1, {"heads", photo, "--model", fixture("speech")},
          "expected a model that reads text, or an encoder");
  refused(2, with_tiny({"patch", "a", "b"}, {"--target", "a"}), "--token: missing (the token that the text");
}

}  // namespace
}  // namespace heed::cli_test
