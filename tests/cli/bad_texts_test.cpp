// Bytes that are no text, and recipes that are none.
#include "bad_input.h"

namespace heed::cli_test {
namespace bad_input {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Arbitrary bytes on stdin: each line gives a result in UTF-8, or one line that states why not.
TEST(BadInput, InvalidTexts) {
  std::string bytes;
  for (int i = 0; i < 2000; ++i) bytes += static_cast<char>((i * i * 7 + i / 3) & 0xFF);
  const std::size_t count = lines(bytes).size();
  ASSERT_GT(count, 3u);
  for (const Words& words :
       {Words{"translate", "--model", tiny_model()}, Words{"tokenize", "--model", fixture("encoders/bert")},
        Words{"classify", "--model", fixture("encoders/bert-classify")},
        Words{"classify", "--model", fixture("encoders/bert-tag")},
        Words{"embed", "--model", fixture("encoders/bert")}}) {
    const Result result = run(with(words, {"--quiet", "--json"}), bytes);
    EXPECT_EQ(result.status, 0) << words[0] << ": " << result.err;
    EXPECT_EQ(result.err, "") << words[0];
    EXPECT_EQ(json_lines(result.out).size(), count) << words[0];
    EXPECT_EQ(run(with(words, {"--quiet"}), "").out, "") << words[0];
  }
  const Result fill = run({"fill", "--model", fixture("encoders/bert-mlm"), "--quiet"}, bytes);
  EXPECT_EQ(fill.status, 1);
  EXPECT_THAT(fill.err, StartsWith("heed: error: line 1: no [MASK]"));
}

// A model's text cannot change the terminal; elsewhere it is what it is.
TEST(BadInput, ControlCharactersOnATerminal) {
  const Folder folder;
  spill(
      folder / "tokenizer.json",
      R"({"model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "\u001b[31mred\tand\u009b2J": 1}, "unk_token": "[UNK]"}})");
  const Words words{"tokenize", "--model", folder / "tokenizer.json", "--decode", "1"};
  EXPECT_EQ(run(words).out, "\x1b[31mred\tand\u009b2J\n");
  const Result shown = run_on_terminal(words);
  EXPECT_EQ(shown.status, 0);
  EXPECT_EQ(shown.out, "\\x1b[31mred\tand\\xc2\\x9b2J\r\n");
}

// Nor can its labels, its other names, the name of its folder, and a text that is given.
TEST(BadInput, NamesAndLabelsOnATerminal) {
  const Folder folder;
  const std::string evil = "A\x1b]0;title\x07\x1b[31m\u009b32m\u202eX\b\r";
  const auto copy = [&](const std::string& model, const std::string& name, const auto& change) {
    const std::string made = folder / name;
    std::filesystem::copy(encoder(model), made, std::filesystem::copy_options::recursive);
    Json config = Json::parse(slurp(made + "/config.json"));
    change(config);
    spill(made + "/config.json", config.dump());
    return made;
  };
  const auto labels = [&](Json& config) {
    config.erase("label2id");
    for (auto& label : config.at("id2label")) label = label.get<std::string>() + evil;
  };
  const std::string classifier = copy("bert-classify", "classifier", labels),
                    tagger = copy("bert-tag", "tagger", labels);
  const std::string plain = copy("bert-classify", evil, [](Json&) {});
  for (const Words& words : {Words{"classify", "--model", classifier, "hello"},
                             Words{"classify", "--model", tagger, "hello world"}, Words{"models", plain},
                             Words{"embed", "--model", encoder("bert"), "--query", "x", evil},
                             Words{"tokenize", "--model", folder / ("none" + evil), "x"}}) {
    const Result shown = run_on_terminal(words);
    for (const char* raw : {"\x1b", "\x07", "\b", "\u009b", "\u202e"})
      EXPECT_THAT(shown.out, testing::Not(HasSubstr(raw))) << words[0];
    EXPECT_THAT(shown.out, HasSubstr("]0;title\\x07\\x1b[31m\\xc2\\x9b32m\\u202eX\\x08")) << words[0];
  }
  EXPECT_THAT(output_of({"classify", "--model", classifier, "hello"}), HasSubstr(evil));  // no terminal
}

TEST(BadInput, Recipes) {
  const Folder folder;
  const auto recipe = [&](const std::string& name, const std::string& text) {
    spill(folder / name, text);
    return Words{"train", folder / name, "--quiet", "--output", folder / "run"};
  };
  spill(folder / "empty.tsv", "");
  expect_errors({
      {1, {"train", folder / "missing.toml", "--output", folder / "run"}, ": not found"},
      {1, recipe("key.toml", "[train]\nstpes = 3\n"),
       "expected a known key, got train.stpes (did you mean train.steps?)"},
      {1, recipe("kind.toml", "[train]\nsteps = \"many\"\n"), "kind.toml:2: train.steps: expected"},
      {1, recipe("toml.toml", "[train\n"), "toml.toml:1: expected TOML"},
      {1, recipe("nothing.toml", ""), "data.train: not set"},
      {1,
       recipe("corpus.toml",
              "[data]\ntrain = \"" + (folder / "empty.tsv") + "\"\n[train]\nsteps = 1\n[eval]\nevery = 0\n"),
       "empty.tsv: no usable line"},
      {1, recipe("file.toml", "[data]\ntrain = \"/nowhere.tsv\"\n[train]\nsteps = 1\n[eval]\nevery = 0\n"),
       "/nowhere.tsv: not found"},
      {2, training({"--set", "train.stpes=3"}),
       "--set: expected a known key, got train.stpes (did you mean train.steps?)"},
      {2, training({"--set", "modl.heads=3"}),
       "--set: expected a known section, got [modl] (did you mean [model]?)"},
      {2, training({"--set", "train.lr=nan"}), "--set: train.lr: expected a number"},
      {2, training({"--set", "train.lr"}), "--set: expected section.key=value"},
      {1, training({"--set", "model.heads=5"}), "model.heads: expected a divisor"},
      {1, training({"--init", "/nowhere"}), "model /nowhere: not found"},
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  EXPECT_FALSE(std::filesystem::exists("/nowhere"));
}

}  // namespace
}  // namespace bad_input
}  // namespace heed::cli_test
