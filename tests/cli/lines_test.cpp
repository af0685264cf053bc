// What all commands that process lines have in common: each line is answered as it arrives, failing lines do
// not affect others, and Ctrl-C keeps what was written. Also the full text of continuations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A decoder with a tokenizer that fits its vocabulary: byte-level BPE for "gpt2", SentencePiece for "llama".
struct Decoder {
  Folder folder;
  std::string path = folder.path().string();
  explicit Decoder(const std::string& name, const std::string& tokenizer) {
    std::filesystem::copy(std::string(HEED_FIXTURES) + "/decoders/" + name, folder.path(),
                          std::filesystem::copy_options::recursive);
    spill(path + "/generation_config.json", "{}");
    const Json cases = read_json(std::string(HEED_FIXTURES) + "/tokenizers/whole.json").at("cases");
    for (const Json& one : cases) {
      if (one.at("name") == tokenizer) spill(path + "/tokenizer.json", one.at("tokenizer").dump());
    }
  }
};

std::string decoded(const std::string& model, const std::string& ids) {
  return Json::parse(
      output_of({"tokenize", "--model", model, "--decode", ids, "--skip-special-tokens", "--json"}));
}

TEST(TextArguments, ThatNameFilesAreReadAsTextsAndSaidToBe) {
  const Decoder model("llama", "llama-bpe");
  const auto told = [&](const Words& texts) {
    Words words{"tokenize", "--model", model.path};
    words.insert(words.end(), texts.begin(), texts.end());
    const Result result = run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(lines(result.out).size(), texts.size());
    return result.err;
  };
  const std::string there = model.path + "/config.json";
  EXPECT_EQ(told({there}), "heed: warning: " + there +
                               ": read as a text, not as the file of this name (for the lines of a file: < "
                               "FILE)\n");
  EXPECT_EQ(told({"missing.txt"}),
            "heed: warning: missing.txt: read as a text, though it looks like the name of a file (for the "
            "lines of a file: < FILE)\n");
  EXPECT_EQ(run({"tokenize", "--model", model.path, "photo.jpg", "--quiet"}).err, "");
  EXPECT_THAT(run({"generate", "--model", model.path, "--max-new-tokens", "1", "missing.txt"}).err,
              HasSubstr("missing.txt: read as a text, though"));
  for (const char* text : {"the cat", "see notes.txt", ".txt", "e.g.", "cat.", "3.14"})
    EXPECT_EQ(told({text}), "") << text;
  EXPECT_EQ(told({"missing.txt", "the cat"}), "") << "one of several texts";
}

TEST(FullText, JoinsThePromptAndItsContinuationAsTheTokenizerDoes) {
  for (const auto& [name, tokenizer] : {std::pair{"llama", "llama-bpe"}, {"gpt2", "gpt2-bytelevel"}}) {
    SCOPED_TRACE(name);
    const Decoder model(name, tokenizer);
    for (const std::string prompt : {"the cat", "the cat sat on"}) {
      const Words words{"generate", "--model", model.path, "--max-new-tokens", "9", "--full-text", prompt};
      Words as_json = words;
      as_json.push_back("--json");
      const Json got = Json::parse(output_of(as_json));
      EXPECT_EQ(got.at("full_text"), prompt + got.at("text").get<std::string>());
      const Json ids = Json::parse(run({"tokenize", "--model", model.path, prompt}).out).at("ids");
      EXPECT_EQ(got.at("full_text"), decoded(model.path, joined(ids) + "," + joined(got.at("ids"))));
      // The streamed text is the same, byte for byte; without the prompt, its rest.
      EXPECT_EQ(run(words).out, got.at("full_text").get<std::string>() + "\n");
      Words alone = words;
      std::erase(alone, "--full-text");
      EXPECT_EQ(prompt + run(alone).out, got.at("full_text").get<std::string>() + "\n");
      EXPECT_EQ(Json::parse(run({"generate", "--model", model.path, "--max-new-tokens", "9", "--json",
                                 "--full-text", "--prompt-ids", joined(ids)})
                                .out)
                    .at("full_text"),
                got.at("full_text"));
    }
  }
}

// SentencePiece's decoders drop the first space of any text.
TEST(FullText, KeepsTheSpaceBeforeTheFirstWord) {
  const Decoder model("llama", "llama-bpe");
  const Json said = Json::parse(run({"tokenize", "--model", model.path, "--no-special-tokens", "the"}).out);
  const std::string word = std::to_string(said.at("ids").front().get<int>());
  ASSERT_THAT(said.at("tokens").front().get<std::string>(), StartsWith("\u2581"));
  EXPECT_THAT(Json::parse(output_of({"generate", "--model", model.path, "--max-new-tokens", "1", "--json",
                                     "--sequence-bias", word + ":1000", "on"}))
                  .at("text")
                  .get<std::string>(),
              StartsWith(" "));
}

TEST(FailedLines, LeaveTheOthersAsTheyAre) {
  const Decoder model("gpt2", "gpt2-bytelevel");
  std::string longest;
  for (int i = 0; i < 80; ++i) longest += "the ";
  const std::string good = "the cat\nit is\n", bad = "the cat\n" + longest + "\nit is\n";
  for (const bool json : {false, true}) {
    Words words{"generate", "--model", model.path, "--max-new-tokens", "5", "--do-sample", "--seed", "1"};
    if (json) words.push_back("--json");
    const Result all = run(words, bad), alone = run(words, good);
    EXPECT_EQ(all.status, 1);
    EXPECT_EQ(alone.status, 0) << alone.err;
    const Words got = lines(all.out);
    ASSERT_EQ(got.size(), 3u) << all.err;
    EXPECT_EQ(got[0], lines(alone.out)[0]);
    EXPECT_EQ(lines(all.err).size(), 1u) << all.err;
    EXPECT_THAT(all.err, HasSubstr("heed: error: line 2: "));
    EXPECT_THAT(all.err, HasSubstr("room for a new token"));
    if (json) {
      EXPECT_THAT(Json::parse(got[1]).at("error").get<std::string>(), HasSubstr("room for a new token"));
    } else {
      EXPECT_EQ(got[1], "");
    }
    // The random numbers of a line depend on its number only.
    EXPECT_EQ(got[2], lines(run(words, "the cat\nthe cat\nit is\n").out)[2]);
  }
}

TEST(FailedLines, OfMasksQuestionsAndTranslations) {
  const Result fill =
      run({"fill", "--model", encoder("bert-mlm"), "--top-k", "1"}, "a [MASK]\nno\nthe [MASK]\n");
  EXPECT_EQ(fill.status, 1);
  EXPECT_THAT(fill.err, HasSubstr("heed: error: line 2: no [MASK] in the text"));
  EXPECT_THAT(lines(fill.out), ElementsAre(Not(""), "", Not("")));
  const Result answer = run({"answer", "--model", encoder("bert-qa"), "--context", "Ada wrote it.", "--json"},
                            "who?\n\nwhat?\n");
  EXPECT_EQ(answer.status, 1);
  ASSERT_EQ(lines(answer.out).size(), 3u);
  EXPECT_THAT(lines(answer.out)[1], HasSubstr("{\"error\": \"expected a question"));
  std::string longest = "a";
  for (int i = 0; i < 400; ++i) longest += " b";
  const Result translate =
      run({"translate", "--model", tiny_model(), "--long-lines", "error"}, "a b\n" + longest + "\nc d\n");
  EXPECT_EQ(translate.status, 1);
  EXPECT_THAT(translate.err, HasSubstr("heed: error: line 2: expected at most"));
  ASSERT_EQ(lines(translate.out).size(), 3u);
  EXPECT_EQ(lines(translate.out)[1], "");
}

TEST(FailedLines, LeaveTheOtherPicturesAsTheyAre) {
  std::string longest = "the";
  for (int i = 0; i < 400; ++i) longest += " cat";
  const Words attend{"attend", "--model", encoder("bert"), "--json"};
  const Result result = run(attend, "the cat\n" + longest + "\nit is\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("heed: error: line 2: "));
  const Words got = lines(result.out);
  ASSERT_EQ(got.size(), 3u) << result.err;
  EXPECT_THAT(got[1], StartsWith("{\"error\": "));
  const Words alone = lines(run(attend, "the cat\nit is\n").out);
  ASSERT_EQ(alone.size(), 2u);
  EXPECT_EQ(got[0], alone[0]);
  EXPECT_EQ(got[2], alone[1]);
  const Result argument = run({"attend", "--model", encoder("bert"), longest});
  EXPECT_EQ(argument.status, 1);
  EXPECT_EQ(argument.out, "");
  EXPECT_THAT(argument.err, AllOf(HasSubstr("heed: error: "), Not(HasSubstr("line 1")))) << "no lines here";
}

// A program that writes a line and waits gets its answer, and the answers equal those of one batch.
TEST(Lines, AreAnsweredAsTheyCome) {
  const Decoder decoder("gpt2", "gpt2-bytelevel");
  const Words texts{"the cat [MASK]", "it [MASK] is", "a [MASK]"};
  for (const Words& words :
       {Words{"fill", "--model", encoder("bert-mlm")}, Words{"translate", "--model", tiny_model()},
        Words{"embed", "--model", encoder("bert")},
        Words{"generate", "--model", decoder.path, "--max-new-tokens", "4"}}) {
    SCOPED_TRACE(words[0]);
    std::string input;
    for (const std::string& text : texts) input += text + "\n";
    const Words together = lines(run(words, input).out);
    ASSERT_EQ(together.size(), 3u);
    Dialogue dialogue(words);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      dialogue.write(texts[i].substr(0, 2));  // a line may arrive in parts
      dialogue.write(texts[i].substr(2) + "\n");
      EXPECT_EQ(dialogue.read_line(), together[i]);
    }
    dialogue.write("the last [MASK] without a line feed");
    EXPECT_EQ(dialogue.finish(), 0);
    EXPECT_NE(dialogue.read(1), "");  // a line, perhaps an empty one
  }
}

TEST(Signals, KeepTheTextSoFar) {
  const Decoder model("llama", "llama-bpe");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Dialogue working({"generate", "--model", model.path, "--max-new-tokens", "100000", "--min-new-tokens",
                      "100000", "--full-text", "the cat"});
    EXPECT_EQ(working.read(12).substr(0, 7), "the cat");
    working.signal(signal);
    EXPECT_EQ(working.finish(), 128 + signal);
    const std::string rest = working.read(1 << 20);
    ASSERT_FALSE(rest.empty());
    EXPECT_EQ(rest.back(), '\n');
  }
}

TEST(Signals, EndWaitingForALine) {
  Dialogue waiting({"translate", "--model", tiny_model()});
  waiting.write("a b c\n");
  EXPECT_NE(waiting.read(1), "");  // a line, perhaps an empty one
  waiting.signal(SIGINT);
  // Its stdin stays open; it must not wait for the next line.
  std::string rest = waiting.read(1);
  EXPECT_EQ(rest, "");
  EXPECT_EQ(waiting.finish(), 130);
}

TEST(LongTexts, EndingAtTheLastPositionIsToldAndInTheJson) {
  const Decoder model("gpt2", "gpt2-bytelevel");  // 64 positions
  const Words words{"generate", "--model", model.path, "--max-new-tokens", "200"};
  for (const Words& more : {Words{"--prompt-ids", "5,6,7,8,9"}, Words{"--prompt-ids", "5,6,7,8,9", "--json"},
                            Words{"--prompt-ids", "5,6,7,8,9", "--num-beams", "2", "--json"}}) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    const Result result = run(all);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err,
              "heed: warning: line 1: stopped at the model's last position (64) after 60 of 200 tokens\n");
    if (more.size() > 2) {
      EXPECT_EQ(Json::parse(result.out).at("finish_reason"), "positions");
    }
    all.push_back("--quiet");
    EXPECT_EQ(run(all).err, "");
  }
  Words short_one{"generate", "--model", model.path,     "--max-new-tokens",
                  "60",       "--json",  "--prompt-ids", "5,6,7,8,9"};
  const Result fits = run(short_one);
  EXPECT_EQ(fits.err, "");
  EXPECT_EQ(Json::parse(fits.out).at("finish_reason"), "length");
  const std::string end = std::to_string(Json::parse(fits.out).at("ids").at(3).get<int>());
  short_one.insert(short_one.end(), {"--eos-token-id", end});
  EXPECT_EQ(Json::parse(run(short_one).out).at("finish_reason"), "stop");
}

TEST(LongTexts, BeyondTheTrainedLengthAreToldOnce) {
  const Decoder model("llama", "llama-bpe");  // trained on 64 positions, but without a limit
  std::string longest;
  for (int i = 0; i < 80; ++i) longest += "the ";
  const Words words{"generate", "--model", model.path, "--max-new-tokens", "2"};
  const Result result = run(words, "the\n" + longest + "\n" + longest + "\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines(result.err).size(), 1u) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: line 2: "));
  EXPECT_THAT(result.err, HasSubstr("more than the 64 the model was trained on"));
  const Result embed = run({"embed", "--model", model.path}, longest + "\nthe\n" + longest + "\n");
  EXPECT_EQ(lines(embed.err).size(), 1u) << embed.err;
  EXPECT_THAT(embed.err, HasSubstr("more than the 64 the model was trained on"));
}

}  // namespace
}  // namespace heed::cli_test
