// Compares generate, on a small GPT-2, with the continuations of Hugging Face transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

std::string gpt2() { return HEED_FIXTURES "/decoders/gpt2"; }

Words generate(const Words& options) {
  Words words{"generate", "--model", gpt2(), "--json"};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

/// Returns a run of the fixture, and the options that request it.
Json fixture_run(const std::string& name) {
  const Json runs = read_json(gpt2() + "/generation.json").at("runs");
  for (const Json& run : runs) {
    if (run.at("name") == name) return run;
  }
  throw std::runtime_error("no run " + name);
}

Words prompts_of(const Json& run) {
  Words options;
  const Json &ids = run.at("inputs").at("input_ids"), &mask = run.at("inputs").at("attention_mask");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Json prompt = Json::array();
    for (std::size_t t = 0; t < ids[i].size(); ++t) {
      if (mask[i][t] == 1) prompt.push_back(ids[i][t]);
    }
    options.insert(options.end(), {"--prompt-ids", joined(prompt)});
  }
  return options;
}

// For example, a small config keeps GPT-2's end token 50256, or Whisper's suppressed tokens. In transformers
// they have no effect either.
TEST(Generate, TokensOutsideTheVocabularyEndAndSuppressNothing) {
  const Folder folder;
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(gpt2() + "/" + file, folder / file);
  spill(folder / "generation_config.json",
        R"({"eos_token_id": 50256, "min_new_tokens": 3, "suppress_tokens": [600],
                                                "begin_suppress_tokens": [220, 50256]})");
  const Words words{"generate", "--model", folder.path().string(), "--json", "--prompt-ids", "5,6,7"};
  const Result result = cli_test::run(words);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("eos_token_id 50256 is outside the vocabulary of 512 tokens"));
  EXPECT_THAT(result.err, HasSubstr(" suppress_tokens 600 is outside the vocabulary of 512 tokens"));
  EXPECT_THAT(result.err, HasSubstr("begin_suppress_tokens 50256 is outside the vocabulary of 512 tokens"));
  EXPECT_EQ(json_lines(result.out).front().at("ids").size(), 20u);
  Words given = words;
  given.insert(given.end(), {"--eos-token-id", "512"});
  Words suppressed = words;
  suppressed.insert(suppressed.end(), {"--begin-suppress-tokens", "512"});
  EXPECT_THAT(cli_test::run(suppressed).err, HasSubstr("--begin-suppress-tokens: expected token ids below"));
  const Result refused = cli_test::run(given);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("--eos-token-id: expected token ids below the vocabulary's size 512, got 512"));
}

// The bad words of the command line replace those of the model's file, as an argument of generate() does.
TEST(Generate, AnOptionNamesTheOneThatItNeeds) {
  expect_error(2, {"generate", "--model", "gpt2", "--json-schema-lax", "a"},
               "command line: missing --json-schema, which --json-schema-lax needs");
}

TEST(Generate, BadWordsOfTheCommandLineReplaceTheModels) {
  const Folder folder;
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(gpt2() + "/" + file, folder / file);
  const auto first = [&](const Words& more) {
    Words words{"generate",     "--model", folder.path().string(), "--json",
                "--prompt-ids", "5,6,7",   "--max-new-tokens",     "1"};
    words.insert(words.end(), more.begin(), more.end());
    return json_lines(cli_test::run(words).out).front().at("ids").at(0).get<int>();
  };
  const int best = first({});
  spill(folder / "generation_config.json", "{\"bad_words_ids\": [[" + std::to_string(best) + "]]}");
  EXPECT_NE(first({}), best);
  EXPECT_EQ(first({"--bad-words-ids", best == 9 ? "10" : "9"}), best);
}

TEST(Generate, ContinuesIdsAsTransformersDoes) {
  for (const auto& [name, beams] : {std::pair{"greedy_batch", "1"}, {"beam4_batch", "4"}}) {
    const Json run = fixture_run(name);
    Words options = prompts_of(run);
    options.insert(options.end(), {"--max-new-tokens", "24", "--num-beams", beams});
    const Result result = cli_test::run(generate(options));
    ASSERT_EQ(result.status, 0) << result.err;
    const auto objects = json_lines(result.out);
    ASSERT_EQ(objects.size(), 3u);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      EXPECT_EQ(objects[i].at("ids"), run.at("new_tokens")[i]) << name;
      if (run.contains("sequences_scores")) {
        EXPECT_NEAR(objects[i].at("score").get<double>(), run.at("sequences_scores")[i].get<double>(), 1e-4);
      }
    }
  }
}

TEST(Generate, DrawsTheSameFromTheSameSeed) {
  const Words options{"--prompt-ids", "5,6,7", "--do-sample", "--num-return-sequences", "3", "--top-k", "0"};
  const auto with = [&](const char* seed) {
    Words words = generate(options);
    words.insert(words.end(), {"--seed", seed});
    return output_of(words);
  };
  const Json drawn = json_lines(with("1")).at(0);
  ASSERT_EQ(drawn.at("sequences").size(), 3u);
  EXPECT_NE(drawn.at("sequences")[0].at("ids"), drawn.at("sequences")[1].at("ids"));
  EXPECT_EQ(with("1"), with("1"));
  EXPECT_NE(with("1"), with("2"));
}

TEST(Generate, WithoutASeedEveryRunIsAnotherAndCanBeRepeated) {
  const auto draw = [&](const Words& more) {
    Words words =
        generate({"--prompt-ids", "5,6,7", "--do-sample", "--top-k", "0", "--max-new-tokens", "30"});
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Result first = draw({}), second = draw({"--verbose"});
  EXPECT_NE(first.out, second.out);
  EXPECT_EQ(first.err, "");
  const std::string seed = json_lines(second.out).at(0).at("seed").dump();
  EXPECT_EQ(second.err, "seed " + seed + "\n");
  EXPECT_EQ(draw({"--seed", seed}).out, second.out);
  EXPECT_FALSE(json_lines(run(generate({"--prompt-ids", "5"})).out).at(0).contains("seed"));
}

TEST(Generate, KeepsToAForm) {
  const Folder folder;
  spill(folder / "schema.json", R"({"enum": [true, null]})");
  const Words begin{"generate", "--model", HEED_SOURCE "/models/shakespeare",
                    "--prompt", "KING: ",  "--do-sample",
                    "--seed",   "3"};
  const auto with = [&](const Words& more) {
    Words words = begin;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(run(with({"--regex", "[a-f]{3}-[0-9]"})).out, testing::MatchesRegex("[a-f][a-f][a-f]-[0-9]\n"));
  EXPECT_THAT(run(with({"--json-schema", folder / "schema.json"})).out,
              testing::MatchesRegex(" ?(true|null)\n"));
  EXPECT_THAT(run(with({"--json-schema", folder / "schema.json", "--num-beams", "3"})).out,
              testing::MatchesRegex(" ?(true|null)\n"));
  expect_error(1, with({"--regex", "("}), "--regex: ");
  expect_error(2, with({"--regex", "a", "--json-schema", folder / "schema.json"}),
               "--regex: expected no --json-schema");
  expect_error(1, with({"--json-schema", folder / "none.json"}), "none.json");
  spill(folder / "wrong.json", R"({"type": "tuple"})");
  expect_error(1, with({"--json-schema", folder / "wrong.json"}), "wrong.json: #/type: ");
  EXPECT_THAT(run(with({"--json-schema", R"({"enum": [true, null]})"})).out,
              testing::MatchesRegex(" ?(true|null)\n"));
  expect_error(1, with({"--json-schema", R"({"type": "tuple"})"}), "--json-schema: #/type: ");
}

TEST(Generate, WarnsOfOptionsWithoutEffect) {
  const auto warnings = [&](const Words& more) {
    Words words = generate({"--prompt-ids", "5,6,7", "--max-new-tokens", "2"});
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  const auto warning = [](const std::string& text) { return "heed: warning: " + text + "\n"; };
  EXPECT_EQ(warnings({"--temperature", "1.9"}), warning("--temperature has no effect without --do-sample"));
  EXPECT_EQ(warnings({"--seed", "1"}), warning("--seed has no effect without --do-sample"));
  EXPECT_EQ(warnings({"--length-penalty", "2"}),
            warning("--length-penalty has no effect without --num-beams above 1"));
  EXPECT_EQ(warnings({"--temperature", "1.9", "--quiet"}), "");
  EXPECT_EQ(warnings({"--top-k", "5", "--seed", "1", "--do-sample"}), "");
  EXPECT_EQ(warnings({"--length-penalty", "2", "--num-beams", "2"}), "");
  EXPECT_EQ(run({"models", gpt2(), "--seed", "1"}).err, warning("--seed has no effect on heed models"));
  EXPECT_EQ(run({"tokenize", "--model", HEED_FIXTURES "/tokenizers/words/tokenizer.json",
                 "--skip-special-tokens", "one"})
                .err,
            warning("--skip-special-tokens has no effect without --decode"));
  // A model whose own file enables sampling needs no option for it.
  const Folder folder;
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(gpt2() + "/" + file, folder / file);
  spill(folder / "generation_config.json", R"({"do_sample": true})");
  EXPECT_EQ(
      run({"generate", "--model", folder.path().string(), "--prompt-ids", "5", "--json", "--top-k", "3"}).err,
      "");
}

TEST(Generate, RefusesWhatDoesNotFit) {
  const auto refuses = [](const Words& options, int status, const char* told) {
    const Result result = run(generate(options));
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_THAT(result.err, HasSubstr(told));
    EXPECT_EQ(result.out, "");
  };
  refuses({"--prompt-ids", "5,512"}, 2, "from 0 to 511");
  refuses({"--prompt-ids", "5", "text"}, 2, "got both");
  refuses({"--prompt-ids", "5", "--eos-token-id", "512"}, 2, "--eos-token-id");
  refuses({"--prompt-ids", "5", "--temperature", "nan"}, 2, "--temperature");
  refuses({"--prompt-ids", "5", "--sequence-bias", "7"}, 2, "IDS:NUMBER");
  refuses({"--prompt-ids", "5", "--cache-dtype", "f64"}, 2,
          "--cache-dtype: expected f32, bf16, f16 or int8, got f64");
  refuses({"--prompt-ids", "5", "--exponential-decay-length-penalty", "7"}, 2, "START,FACTOR");
  refuses({"--prompt-ids", "5", "--stop", ""}, 2, "--stop");
  refuses({"--prompt-ids", "5,6", "--max-length", "2"}, 1, "room for a new token");
  expect_error(1, {"generate", "--model", marian(), "--prompt-ids", "5", "--json"},
               ": a marian encoder-decoder cannot continue text (use heed translate)");
}

}  // namespace
}  // namespace heed::cli_test
