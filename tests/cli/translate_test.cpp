// Compares heed translate with the ids from Hugging Face transformers
// (tests/fixtures/marian/generation.json); also tests lines of text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

// Returns the options of a run as flags: "num_beams": 4 becomes --num-beams 4.
Words flags(const Json& options) {
  Words words;
  for (const auto& [name, value] : options.items()) {
    std::string flag = "--" + name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (name == "bad_words_ids") {
      for (const Json& ids : value) words.insert(words.end(), {flag, joined(ids)});
    } else if (value.is_array()) {
      words.insert(words.end(), {flag, joined(value)});
    } else if (name == "do_sample") {
      EXPECT_FALSE(value.get<bool>());
    } else {
      words.insert(words.end(), {flag, value.is_string() ? value.get<std::string>() : value.dump()});
    }
  }
  return words;
}

Words prompts(const Json& inputs) {
  Words words;
  for (std::size_t row = 0; row < inputs.at("input_ids").size(); ++row) {
    Json ids = Json::array();
    for (std::size_t i = 0; i < inputs.at("input_ids")[row].size(); ++i) {
      if (inputs.at("attention_mask")[row][i] == 1) ids.push_back(inputs.at("input_ids")[row][i]);
    }
    words.insert(words.end(), {"--prompt-ids", joined(ids)});
  }
  return words;
}

TEST(Translate, PromptIdsGiveTheIdsOfHuggingFace) {
  const Json runs = read_json(marian() + "/generation.json").at("runs");
  ASSERT_GT(runs.size(), 10u);
  for (const Json& expected : runs) {
    SCOPED_TRACE(expected.at("name").get<std::string>());
    Words words{"translate", "--json", "--model", marian()};
    for (const Words& more : {flags(expected.at("options")), prompts(expected.at("inputs"))})
      words.insert(words.end(), more.begin(), more.end());
    const std::string result = output_of(words);
    std::vector<Json> hypotheses;
    for (const Json& line : json_lines(result)) {
      if (!line.contains("sequences")) hypotheses.push_back(line);
      if (line.contains("sequences"))
        hypotheses.insert(hypotheses.end(), line.at("sequences").begin(), line.at("sequences").end());
    }
    ASSERT_EQ(hypotheses.size(), expected.at("new_tokens").size());
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
      EXPECT_EQ(hypotheses[i].at("ids"), expected.at("new_tokens")[i]);
      if (expected.contains("sequences_scores")) {
        EXPECT_NEAR(hypotheses[i].at("score").get<double>(), expected.at("sequences_scores")[i].get<double>(),
                    1e-3);
      }
    }
  }
}

TEST(Translate, InputFeaturesGiveTheIdsOfHuggingFace) {
  const std::string whisper = HEED_FIXTURES "/whisper-untied", input = whisper + "/inputs.safetensors";
  const Json runs = read_json(whisper + "/generation.json").at("runs");
  for (const Json& expected : runs) {
    Words words{"translate",
                "--json",
                "--model",
                whisper,
                "--input",
                input,
                "--decoder-input-ids",
                joined(expected.at("decoder_input_ids"))};
    for (const std::string& flag : flags(expected.at("options"))) words.push_back(flag);
    const std::vector<Json> found = json_lines(output_of(words));
    ASSERT_EQ(found.size(), 3u);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i].at("ids"), expected.at("new_tokens")[i]) << expected.at("name");
  }
  const auto refused = [&](const Words& more, int status, const char* message) {
    Words words{"translate", "--json", "--model", whisper};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused({"--prompt-ids", "3,4"}, 1, "expected input_features");
  refused({"--input", input, "--prompt-ids", "3,4"}, 2, "got several");
  refused({"--input", input, "some text"}, 2, "got several");
  refused({"--prompt-ids", "3,4", "--decoder-input-ids", "5"}, 2, "missing --input");
  refused({"--input", input, "--decoder-input-ids", "61"}, 2, "--decoder-input-ids");
  refused({"--input", input, "--decoder-input-ids", ""}, 2, "--decoder-input-ids");
  refused({"--input", ""}, 1, "\"\" is not a file name");
  refused({"--input", input, "--prefix", "a"}, 2, "cannot be combined with --input");
  refused({"--input", input, "--attention", "a.svg"}, 2, "cannot be combined with --input");
  refused({"--input", whisper + "/model.safetensors"}, 1, "input_features");
  refused({"--input", whisper + "/none.safetensors"}, 1, "none.safetensors");
}

// A bias beyond the largest finite number makes a score infinite.
TEST(Translate, InvalidScoresAreRemovedWhereThatIsAskedFor) {
  Words words{"translate", "--json",      "--model",         marian(), "--prompt-ids",
              "5,6,0",     "--do-sample", "--sequence-bias", "7:1e39"};
  expect_error(1, words, "expected finite scores");
  words.push_back("--remove-invalid-values");
  EXPECT_EQ(run(words).status, 0);
}

Result translate(const std::string& input, const Words& options = {}) {
  Words words{"translate", "--model", tiny_model(), "--max-new-tokens", "8"};
  words.insert(words.end(), options.begin(), options.end());
  return run(words, input);
}

TEST(Translate, KeepsOrderAndNumberOfLines) {
  const Result result = translate("a b c\n\nd e\r\n\r\n \nf g");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Words translated = lines(result.out);
  ASSERT_EQ(translated.size(), 6u);
  EXPECT_EQ(result.out.find('\r'), std::string::npos);
  for (const std::size_t empty : {1, 3, 4}) EXPECT_EQ(translated[empty], "");
  const std::vector<std::pair<int, const char*>> alone{{0, "a b c"}, {2, "d e"}, {5, "f g"}};
  for (const auto& [line, text] : alone) {
    EXPECT_EQ(run({"translate", "--model", tiny_model(), "--max-new-tokens", "8", text}).out,
              translated[static_cast<std::size_t>(line)] + "\n");
  }
  EXPECT_EQ(translate("").out, "");
}

TEST(Translate, GivesJsonForEveryLine) {
  const auto values = json_lines(translate("a b c\n\nd\n", {"--json"}).out);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_TRUE(values[1].at("ids").empty());
  for (const Json& value : values) {
    EXPECT_TRUE(value.at("text").is_string());
    EXPECT_LE(value.at("score").get<double>(), 0.0);
  }
  const auto best =
      json_lines(translate("a b c\nd\n", {"--json", "--num-beams", "3", "--num-return-sequences", "3"}).out);
  ASSERT_EQ(best.size(), 2u);
  for (const Json& value : best) {
    ASSERT_EQ(value.at("sequences").size(), 3u);
    EXPECT_EQ(value.at("sequences")[0].at("ids"), value.at("ids"));
    EXPECT_GE(value.at("sequences")[0].at("score"), value.at("sequences")[1].at("score"));
  }
}

TEST(Translate, TheNumberOfThreadsChangesNothing) {
  std::string input;
  for (int i = 0; i < 40; ++i)
    input += std::string("abcdefgh").substr(static_cast<std::size_t>(i % 8)) + " a b c d\n";
  const Result one = translate(input, {"--json", "--num-beams", "2", "--threads", "1"});
  const Result two = translate(input, {"--json", "--num-beams", "2", "--threads", "2"});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(lines(one.out).size(), 40u);
  EXPECT_EQ(one.out, two.out);
}

TEST(Translate, SamplesTheSameForTheSameSeed) {
  const auto sample = [](const char* seed) {
    return translate("a b c d e\nf g h\n", {"--do-sample", "--seed", seed}).out;
  };
  EXPECT_EQ(sample("3"), sample("3"));
  EXPECT_NE(sample("3"), sample("4"));
}

TEST(Translate, ReplacesInvalidUtf8AndTells) {
  const Result result = translate("a b\n a \xff b\n");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "heed: warning: line 2: 1 invalid UTF-8 sequence replaced\n");
  EXPECT_EQ(lines(result.out).size(), 2u);
  const Folder folder;
  spill(folder / "garbage", "a\n\xff\n\xff\xff\n\xff\n");
  const std::string file = folder / "garbage";
  EXPECT_EQ(run({"evaluate", "--hypothesis", file, "--reference", file, "--quiet"}).err, "");
  EXPECT_THAT(lines(run({"evaluate", "--hypothesis", file, "--reference", file}).err),
              testing::Each("heed: warning: " + file +
                            ":2: 4 invalid UTF-8 sequences replaced, in this and 2 later lines"));
  const Result quiet = translate("a b\n a \xff b\n", {"--quiet"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_EQ(quiet.out, result.out);
}

TEST(Translate, CutsSplitsOrRefusesLongLines) {
  std::string input = "a b\n";
  for (int i = 0; i < 200; ++i) input += "a b c d ";
  input += "\n";
  const Result cut = translate(input);
  EXPECT_EQ(cut.status, 0);
  EXPECT_THAT(cut.err, HasSubstr("line 2: more than the model's 64 positions: the rest is ignored"));
  EXPECT_EQ(lines(cut.out).size(), 2u);
  const Result split = translate(input, {"--long-lines", "split"});
  EXPECT_EQ(split.status, 0);
  EXPECT_THAT(split.err, HasSubstr("translated in 13 parts"));
  EXPECT_EQ(lines(split.out).size(), 2u);
  EXPECT_GT(split.out.size(), cut.out.size());
  const Result error = translate(input, {"--long-lines", "error"});
  EXPECT_EQ(error.status, 1);
  EXPECT_THAT(error.err, HasSubstr("line 2: expected at most 64 tokens, got 801"));
}

TEST(Translate, WritesAttentionOfEveryText) {
  const Folder folder;
  ASSERT_EQ(translate("a b c\nd e\n", {"--attention", folder / "map.svg"}).status, 0);
  EXPECT_EQ(listing(folder.path()), (Words{"map-1.svg", "map-2.svg"}));
  ASSERT_EQ(translate("a b \xff\n", {"--attention", folder / "one.json"}).status, 0);
  const Json picture = read_json(folder / "one.json");  // throws if it is not UTF-8
  ASSERT_EQ(picture.at("maps").size(), 4u);             // two layers with two heads each
}

/// A tiny M2M100 with random weights, and a tokenizer for it.
class Multilingual {
 public:
  Multilingual() {
    const std::filesystem::path tokenizer = HEED_FIXTURES "/tokenizers/languages",
                                model = HEED_FIXTURES "/m2m100";
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(model / name, folder_.path() / name);
    std::filesystem::copy_file(tokenizer / "bpe.model", folder_.path() / "sentencepiece.bpe.model");
    std::filesystem::copy_file(tokenizer / "vocab.json", folder_.path() / "vocab.json");
    record("{}");
  }
  std::string path() const { return folder_.path().string(); }
  void record(const std::string& config) const { spill(folder_ / "tokenizer_config.json", config); }
  Result translate(const Words& more) const {
    Words words{"translate", "--json", "--model", folder_.path().string(), "--max-new-tokens", "5"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  /// Returns the ids that are generated for `text`.
  Json ids(const Words& more) const {
    const Result result = translate(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).at(0).at("ids");
  }
  /// Returns the ids of the text between the token of its language and the end token.
  std::string source(int language, const std::string& text) const {
    const Result result = run({"tokenize", "--no-special-tokens", "--model", folder_.path().string(), text});
    return std::to_string(language) + "," + joined(json_lines(result.out).at(0).at("ids")) + ",2";
  }

 private:
  Folder folder_;
};

TEST(Translate, LanguagesNameTheSourceAndTheFirstTokenOfTheTarget) {
  constexpr int kGerman = 313 + 16, kEnglish = 313 + 18, kFrench = 313 + 24;
  const Multilingual model;
  const std::string text = "the cold sea", german = std::to_string(kGerman);
  const Json expected =
      model.ids({"--prompt-ids", model.source(kFrench, text), "--forced-bos-token-id", german});
  EXPECT_EQ(expected.at(0), kGerman);
  EXPECT_EQ(model.ids({"--source-language", "fr", "--target-language", "__de__", text}), expected);
  EXPECT_EQ(model.ids({"--source-language", "fr", "--forced-bos-token-id", german, text}), expected);
  EXPECT_EQ(model.ids({text}), model.ids({"--prompt-ids", model.source(kEnglish, text)}));
  model.record(R"({"src_lang": "fr", "tgt_lang": "de"})");
  EXPECT_EQ(model.ids({text}), expected);
  EXPECT_EQ(model.ids({"--target-language", "en", text}).at(0), kEnglish);
}

TEST(Evaluate, TranslatesBetweenTheLanguagesOfTheOptions) {
  const Multilingual model;
  const Folder folder;
  const Words languages{"--source-language", "fr", "--target-language", "de"};
  Words words = languages;
  words.emplace_back("the cold sea");
  const Json translated = json_lines(model.translate(words).out).at(0);
  ASSERT_NE(translated.at("text"), "");
  spill(folder / "source", "the cold sea\n");
  spill(folder / "reference", translated.at("text").get<std::string>() + "\n");
  const auto exact = [&](const Words& more) {
    Words command{"evaluate", "--json", "--model", model.path(), "--max-new-tokens", "5"};
    command.insert(command.end(), {"--source", folder / "source", "--reference", folder / "reference"});
    command.insert(command.end(), more.begin(), more.end());
    return json_lines(output_of(command)).at(0).at("exact").get<double>();
  };
  EXPECT_EQ(exact(languages), 100);
  EXPECT_EQ(exact({"--source-language", "fr", "--target-language", "en"}), 0);
  expect_error(2,
               {"evaluate", "--hypothesis", folder / "reference", "--reference", folder / "reference",
                "--target-language", "de"},
               "--target-language: expected --source with --model, got --hypothesis");
}

TEST(Translate, RefusesLanguagesThatTheModelLacks) {
  const Multilingual model;
  const auto refused = [](const Result& result, int status, const std::string& message) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  refused(model.translate({"--source-language", "frr", "a"}), 2,
          "--source-language: expected one of the model's 100 languages, got frr (the nearest: fr, ");
  refused(model.translate({"--target-language", "deu_Latn", "a"}), 2, "--target-language: expected one of");
  refused(model.translate({"--target-language", "de", "--forced-bos-token-id", "5", "a"}), 2,
          "--target-language: cannot be combined with --forced-bos-token-id");
  refused(model.translate({"--source-language", "de", "--prompt-ids", "5,2"}), 2,
          "--source-language: cannot be combined with --prompt-ids");
  refused(run({"translate", "--model", tiny_model(), "--target-language", "fr", "a"}), 1,
          "for --target-language, got one without languages");
}

TEST(Translate, SaysWhenTheResultsCannotBeWritten) {
  for (const Words& words :
       {Words{"translate", "--model", tiny_model(), "a b"}, Words{"models", tiny_model()}, Words{"--help"},
        Words{"attend", "--model", tiny_model(), "a b"}}) {
    const Result result = run(words, "", "/dev/full");
    EXPECT_EQ(result.status, 1) << words.front();
    EXPECT_THAT(result.err,
                HasSubstr("heed: error: stdout: cannot write the results (No space left on device)"));
  }
}

}  // namespace
}  // namespace heed::cli_test
