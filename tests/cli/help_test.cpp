// Help, completion, and messages about words that no command accepts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The names of the commands that a help lists.
Words commands_in(const std::string& help) {
  Words names;
  if (help.find("COMMAND [OPTIONS]") == std::string::npos) return names;
  for (const std::string& line : lines(help.substr(0, help.find("\nCommon options:\n") + 1))) {
    if (line.size() > 2 && line.rfind("  ", 0) == 0 && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

/// Every command, and those below one, as their helps list them.
const std::vector<Words>& all_commands() {
  static const std::vector<Words> list = [] {
    std::vector<Words> commands;
    for (const std::string& name : commands_in(run({"--help"}).out)) {
      commands.push_back({name});
      for (const std::string& below : commands_in(run({name, "--help"}).out))
        commands.push_back({name, below});
    }
    return commands;
  }();
  return list;
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string joined_words(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// Returns the long options at the beginning of the lines of a help text.
std::set<std::string> options_of(const std::string& help) {
  std::set<std::string> options;
  for (const std::string& line : lines(help)) {
    if (line.rfind("  -", 0) != 0 && line.rfind("      -", 0) != 0) continue;
    std::string label = line.substr(0, line.find("  ", line.find_first_not_of(' ')));
    for (std::size_t at = 0; (at = label.find("--", at)) != std::string::npos;) {
      const std::size_t end = std::min(label.find_first_of(" ,", at), label.size());
      options.insert(label.substr(at, end - at));
      at = end;
    }
  }
  return options;
}

TEST(Help, ListsTheCommandOfEveryFileInGroups) {
  const std::string overview = run({"--help"}).out;
  Words names = commands_in(overview), files;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_SOURCE "/src/cli/commands"))
    files.push_back(entry.path().stem());
  std::sort(files.begin(), files.end());
  const std::string first = overview.substr(0, overview.find("\nUse a model:\n") + 1) + "\nCommon options:\n";
  EXPECT_EQ(commands_in(first), (Words{"generate", "chat", "translate", "train", "attend", "serve"}));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, files);
  for (const std::string& line : lines(run_on_terminal({"--help"}, "", 80).out))
    EXPECT_LE(line.size(), 81u) << line;
}

TEST(Help, FitsNarrowTerminals) {
  for (const std::string& line : lines(run_on_terminal({"--help"}, "", 40).out))
    EXPECT_TRUE(line.starts_with("  heed ") || line.size() <= 41) << line;
  for (const Words& command : all_commands()) {
    const std::string help = run_on_terminal(with(command, {"--help"}), "", 40).out;
    EXPECT_THAT(help, HasSubstr("\n  -h, --help\r\n        Show this help\r\n"));
    for (const std::string& line : lines(help)) {
      const bool whole =
          line.starts_with("  ") && !line.starts_with("        ");  // a label, an example, a list
      const bool one_word = line.find(' ', std::min(line.find_first_not_of(' '), line.size())) == line.npos;
      EXPECT_TRUE(whole || one_word || line.size() <= 41) << joined_words(command) << ": " << line;
    }
  }
}

TEST(Environment, AnUnknownBackgroundIsTold) {
  setenv("HEED_BACKGROUND", "pink", 1);
  const Result told = run({"models"}), quiet = run({"models", "--quiet"});
  unsetenv("HEED_BACKGROUND");
  EXPECT_EQ(told.status, 0);
  EXPECT_THAT(told.err, HasSubstr("heed: warning: HEED_BACKGROUND: expected dark or light, got pink\n"));
  EXPECT_THAT(quiet.err, Not(HasSubstr("HEED_BACKGROUND")));
}

TEST(Help, EveryCommandShowsExamplesAndTheCommonOptions) {
  const std::string overview = run({"--help"}).out;
  for (const Words& command : all_commands()) {
    const Result result = run(with(command, {"--help"}));
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, HasSubstr("Examples:\n  heed " + joined_words(command)));
    EXPECT_THAT(overview, HasSubstr("\n  " + command.front()));
    EXPECT_THAT(result.out, AllOf(HasSubstr("\nCommon options:\n"), Not(HasSubstr("{false}"))));
    const std::set<std::string> options = options_of(result.out);
    for (const char* common : {"--help", "--json", "--threads", "--seed", "--quiet", "--verbose"})
      EXPECT_TRUE(options.contains(common)) << joined_words(command) << common;
    for (const std::string& line : lines(result.out)) EXPECT_LE(line.size(), 130u) << line;
    EXPECT_EQ(run(with({"help"}, command)).out, result.out);
  }
  EXPECT_THAT(
      run({"--version"}).out,
      testing::MatchesRegex("heed [0-9]+\\.[0-9]+\\.[0-9]+\ninstructions: [a-z0-9-]+\nprocesses: .+\n"));
  setenv("HEED_TARGET", "avx9", 1);
  expect_error(1, {"models"},
               "HEED_TARGET: expected one of amx, avx512-vnni, avx512, avx2-vnni, avx2, portable, got avx9");
  unsetenv("HEED_TARGET");
  EXPECT_EQ(run({"help"}).out, overview);
  const std::string translate = run({"translate", "--help"}).out;
  for (const std::string group : {"Input", "Model", "Generation: lengths", "Generation: search",
                                  "Generation: sampling", "Generation: constraints", "Output"}) {
    EXPECT_THAT(translate, HasSubstr("\n" + group + ":\n"));
  }
  EXPECT_TRUE(options_of(translate).contains("--no-do-sample"));
  EXPECT_THAT(run({"attend", "--help"}).out, HasSubstr("--show weights|norms|rollout|gradient\n"));
  EXPECT_THAT(run({"doctor", "--help"}).out, Not(HasSubstr("required")));
}

TEST(Help, WithoutACommandItIsPrintedWithStatusTwo) {
  for (const Words& words : {Words{}, Words{"bench"}}) {
    const Result result = run(words);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, run(with(words, {"--help"})).out);
  }
}

TEST(Help, TheManualKnowsEveryOption) {
  const std::string manual = slurp(HEED_SOURCE "/docs/man/heed.1");
  std::size_t options = 0;
  for (const Words& command : all_commands()) {
    for (const std::string& option : options_of(run(with(command, {"--help"})).out)) {
      EXPECT_THAT(manual, HasSubstr("Fl Fl " + option.substr(2))) << joined_words(command);
      ++options;
    }
  }
  EXPECT_GT(options, 250u);
}

/// Whether the shell finds a program.
bool is_installed(const std::string& program) {
  return ::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// What a shell prints for a script, its errors too.
std::string shell_output(const std::string& shell, const Folder& folder, const std::string& script) {
  spill(folder / "script", script);
  const std::string command =
      shell + " " + (folder / "script") + " > " + (folder / "printed") + " 2>&1 < /dev/null";
  static_cast<void>(::system(command.c_str()));  // what it printed says why it failed
  return slurp(folder / "printed");
}

// Returns bash's completions for command lines whose last word is being typed.
std::string bash_completions(const std::vector<Words>& command_lines) {
  const Folder folder;
  spill(folder / "completion", run({"--completion", "bash"}).out);
  std::string script =
      "compopt() { :; }\nsource " + (folder / "completion") + "\ncd " + folder.path().string() + "\n";
  for (const Words& words : command_lines) {
    script += "COMP_WORDS=(";
    for (const std::string& word : words) script += "'" + word + "' ";
    script += ") COMP_CWORD=" + std::to_string(words.size() - 1) + "\n_heed\necho \"${COMPREPLY[*]}\"\n";
  }
  return shell_output("bash", folder, script);
}

TEST(Completion, BashOffersEveryOption) {
  std::vector<Words> command_lines;
  for (const Words& command : all_commands()) command_lines.push_back(with(with({"heed"}, command), {"--"}));
  const Words offered = lines(bash_completions(command_lines));
  ASSERT_EQ(offered.size(), all_commands().size());
  for (std::size_t i = 0; i < offered.size(); ++i) {
    std::set<std::string> words;
    std::istringstream stream(offered[i]);
    for (std::string word; stream >> word;) words.insert(word);
    EXPECT_EQ(words, options_of(run(with(all_commands()[i], {"--help"})).out))
        << joined_words(all_commands()[i]);
  }
}

TEST(Completion, BashOffersCommandsAndValues) {
  const Words offered = lines(bash_completions({{"heed", "tra"},
                                                {"heed", "bench", "ge"},
                                                {"heed", "--quiet", "help", "tok"},
                                                {"heed", "translate", "--early-stopping", ""},
                                                {"heed", "translate", "--early-stopping", "=", "n"},
                                                {"heed", "generate", "--temperature", ""},
                                                {"heed", "attend", "--heads", ""},
                                                {"heed", "attend", "--show", ""},
                                                {"heed", "attend", "--palette", "g"},
                                                {"heed", "train", "comp"}}));
  EXPECT_EQ(offered,
            (Words{"translate train transcribe", "gemm generate", "tokenize", "true false never", "never", "",
                   "all mean max alignment", "weights norms rollout gradient", "grey", "completion"}));
}

// zsh's own _arguments needs a terminal; its arguments show what it would offer.
TEST(Completion, ZshOffersEveryOption) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const Folder folder;
  spill(folder / "_heed", run({"--completion", "zsh"}).out);
  std::string script = "_arguments() { print -rl -- \"$@\"; return 1 }\nwords=(heed) CURRENT=2\nsource " +
                       (folder / "_heed") + "\n";
  for (const Words& command : all_commands()) {
    std::string name = "_heed";
    for (const std::string& word : command) name += "_" + word;
    script += "print '# " + joined_words(command) + "'\n" + name + "\n";
  }
  std::string printed = shell_output("zsh", folder, script);
  for (const Words& command : all_commands()) {
    const std::string heading = "# " + joined_words(command) + "\n";
    const std::size_t begin = printed.find(heading);
    ASSERT_NE(begin, std::string::npos) << printed;
    const std::string table = printed.substr(begin, printed.find("\n# ", begin) - begin);
    for (const std::string& option : options_of(run(with(command, {"--help"})).out))
      EXPECT_THAT(table, testing::ContainsRegex("[)*]" + option + "\\[")) << joined_words(command);
  }
}

struct Wrong {
  Words words;
  std::string message;
};

TEST(UnknownWords, AreNamedWithTheNearest) {
  for (const Wrong& wrong : std::vector<Wrong>{
           {{"translate", "--num-beam", "4", "a"},
            "command line: unknown option --num-beam for heed translate (did you mean --num-beams? heed "
            "translate "
            "--help lists all)"},
           {{"translate", "--max-new", "4", "a"},
            "--max-new for heed translate (did you mean --max-new-tokens?"},
           {{"run", "x"}, "command line: unknown command run (did you mean chat?"},
           {{"ls"}, "command line: unknown command ls (did you mean models?"},
           {{"list"}, "command line: unknown command list (did you mean models?"},
           {{"generate", "--max-tokens", "5"},
            "unknown option --max-tokens for heed generate (did you mean --max-new-tokens?"},
           {{"generate", "--top", "5"}, "unknown option --top for heed generate (did you mean --top-k?"},
           {{"generate", "--modle", "x"}, "unknown option --modle for heed generate (did you mean --model?"},
           {{"models", "x", "--zzz", "--aaa=1"},
            "unknown options --zzz, --aaa for heed models (heed models --help"},
           {{"models", "x", "--qiuet"}, "did you mean --quiet?"},
           {{"forward", "--skip-special-tokens"},
            "unknown option --skip-special-tokens for heed forward (heed tokenize takes it; heed forward "
            "--help"},
           {{"bench", "gemm", "--causal"}, "for heed bench gemm (heed bench attention takes it;"},
           {{"models", "x", "second", "third"}, "unexpected arguments second, third for heed models"},
           {{"transalte", "a"}, "unknown command transalte (did you mean translate? heed --help lists all)"},
           {{"transalte", "--help"}, "unknown command transalte (did you mean translate?"},
           {{"help", "tranlate"}, "unknown command tranlate (did you mean translate?"},
           {{"bench", "gem"}, "unknown command gem of heed bench (did you mean gemm? heed bench --help"},
           {{"tokenize", "--target", "a"},
            "--target of heed tokenize is now --as-target (heed tokenize --help shows its use)"},
           {{"transcribe", "--window=2", "a"},
            "--window of heed transcribe is now --chunk-length-s (heed transcribe --help shows its use)"},
           {{"average", "a", "b", "--output", "c"},
            "heed average is now heed convert MODEL MODEL (heed convert --help shows its use)"},
           {{"quantize", "--help"}, "heed quantize is now heed convert --bits 4 (heed convert --help shows"},
           {{"help", "merge"}, "heed merge is now heed convert (heed convert --help shows its use)"},
           {{"info", "x"}, "heed info is now heed models MODEL (heed models --help shows its use)"},
           {{"qqqqqq"}, "unknown command qqqqqq (heed --help lists all)"},
           {{"--completion"}, "--completion: missing value: bash or zsh"},
           {{"--completion", "fish"}, "--completion: expected bash or zsh, got fish"},
       }) {
    const Result result = run(wrong.words);
    EXPECT_EQ(result.status, 2) << wrong.message;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(StartsWith("heed: error: "), HasSubstr(wrong.message)));
  }
}

TEST(Messages, HoldNoControlCharacters) {
  const Result result = run({"models",
                             "/nowhere/\x1b[2Ja\nb\xc2\x9b\xff"
                             "é"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("/nowhere/\\x1b[2Ja b\\xc2\\x9b\\xffé"));
  EXPECT_EQ(result.err.find('\n') + 1, result.err.size());
  const Result longer = run({"models", "/nowhere/" + std::string(100000, 'a')});
  EXPECT_LT(longer.err.size(), 1400u);
  EXPECT_THAT(longer.err, HasSubstr(" … "));
}

}  // namespace
}  // namespace heed::cli_test
