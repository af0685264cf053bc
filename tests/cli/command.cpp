// Runs processes and handles files for the tests of the command.
#include "command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace heed::cli_test {
namespace {

void redirect(int descriptor, const std::string& file, int flags) {
  const int opened = ::open(file.c_str(), flags, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(127);
  ::close(opened);
}

Words with_threads(const Words& words) {
  Words all{HEED_COMMAND};
  if (std::find(words.begin(), words.end(), "--threads") == words.end())
    all.insert(all.end(), {"--threads", "1"});
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

[[noreturn]] void execute(Words& all) {
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(HEED_COMMAND, arguments.data());
  ::_exit(127);
}

pid_t spawn(const Words& words, const std::string& in, const std::string& out, const std::string& err) {
  Words all = with_threads(words);
  const pid_t process = ::fork();
  if (process == 0) {
    redirect(STDIN_FILENO, in, O_RDONLY);
    redirect(STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC);
    redirect(STDERR_FILENO, err, O_WRONLY | O_CREAT | O_TRUNC);
    execute(all);
  }
  return process;
}

}  // namespace

Result run(const Words& words, const std::string& input, const std::string& out_file) {
  const Folder folder;
  spill(folder / "in", input);
  const std::string out = out_file.empty() ? folder / "out" : out_file;
  Result result;
  result.status = wait_for(spawn(words, folder / "in", out, folder / "err"));
  if (out_file.empty()) result.out = slurp(out);
  result.err = slurp(folder / "err");
  return result;
}

Result run_json(Words words, const Words& more, const std::string& input) {
  words.insert(words.end(), more.begin(), more.end());
  words.push_back("--json");
  return run(words, input);
}

std::string output_of(const Words& words, const std::string& input) {
  const Result result = run(words, input);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

void expect_error(int status, const Words& words, const std::string& told, const std::string& input) {
  std::string command = "heed";
  for (const std::string& word : words) command += " " + word;
  SCOPED_TRACE(command);
  const Result result = run(words, input);
  EXPECT_EQ(result.status, status);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, testing::StartsWith("heed: error: "));
  EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
  EXPECT_THAT(result.err, testing::ContainsRegex("^heed: error: .+: .+"));
  EXPECT_THAT(result.err, testing::HasSubstr(told));
}

TerminalDialogue::TerminalDialogue(const Words& words, const std::string& state, unsigned short columns) {
  Words all = with_threads(words);
  winsize size{};
  size.ws_col = columns;
  process_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (process_ < 0) throw std::runtime_error("forkpty failed");
  if (process_ != 0) return;
  for (const char* name : {"NO_COLOR", "COLUMNS", "SSH_CONNECTION"}) ::unsetenv(name);
  ::setenv("TERM", "xterm", 1);
  ::setenv("XDG_STATE_HOME", state.c_str(), 1);
  ::setenv("HOME", state.c_str(), 1);  // no ~/.editrc
  execute(all);
}

TerminalDialogue::~TerminalDialogue() {
  if (process_ > 0) finish();
}

void TerminalDialogue::type(const std::string& keys) const {
  for (std::size_t written = 0; written < keys.size();) {
    const ssize_t count = ::write(terminal_, keys.data() + written, keys.size() - written);
    if (count < 0) throw std::runtime_error("write failed");
    written += static_cast<std::size_t>(count);
  }
}

std::string TerminalDialogue::read_until(const std::string& text) {
  std::string shown;
  char byte = 0;
  while (!shown.ends_with(text)) {
    if (::read(terminal_, &byte, 1) != 1) throw std::runtime_error(text + " was not shown, but: " + shown);
    shown += byte;
  }
  return shown;
}

Result TerminalDialogue::finish() {
  Result result;
  char byte = 0;
  while (::read(terminal_, &byte, 1) == 1) result.out += byte;  // fails when the command has ended
  ::close(terminal_);
  result.status = wait_for(process_);
  process_ = -1;
  return result;
}

Result run_on_terminal(const Words& words, const std::string& input, unsigned short columns) {
  const Folder state;
  TerminalDialogue dialogue(words, state.path().string(), columns);
  dialogue.type(input);
  return dialogue.finish();
}

pid_t start(const Words& words) { return spawn(words, "/dev/null", "/dev/null", "/dev/null"); }

int wait_for(pid_t process) {
  int status = 0;
  if (::waitpid(process, &status, 0) != process) throw std::runtime_error("waitpid failed");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Dialogue::Dialogue(const Words& words) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
  Words all = with_threads(words);
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    redirect(STDERR_FILENO, "/dev/null", O_WRONLY);
    execute(all);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

Dialogue::~Dialogue() {
  if (to_ >= 0) ::close(to_);
  ::close(from_);
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void Dialogue::write(const std::string& text) const {
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("write failed");
}

std::string Dialogue::read_line() const {
  std::string line;
  for (std::string byte; (byte = read(1)) != "" && byte != "\n";) line += byte;
  return line;
}

std::string Dialogue::read(std::size_t count) const {
  std::string text;
  for (char byte = 0; text.size() < count && ::read(from_, &byte, 1) == 1;) text += byte;
  return text;
}

void Dialogue::signal(int number) const { ::kill(process_, number); }

int Dialogue::finish() {
  ::close(to_);
  to_ = -1;
  const int status = wait_for(process_);
  process_ = -1;
  return status;
}

Words lines(const std::string& text) {
  Words result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> values;
  for (const std::string& line : lines(text)) values.push_back(Json::parse(line));
  return values;
}

std::string joined(const Json& ids) {
  std::string text;
  for (const Json& id : ids) {
    if (!text.empty()) text += ',';
    text += id.dump();
  }
  return text;
}

Words tiny_training() {
  Words words{"train", HEED_SOURCE "/recipes/reverse.toml"};
  for (const char* setting : {"task.pairs=400", "data.dev_size=12", "model.d_model=16", "model.heads=2",
                              "model.ffn=32", "train.steps=24", "train.warmup=4", "train.batch_tokens=256",
                              "eval.every=12", "eval.max_pairs=12", "checkpoint.every=8"}) {
    words.insert(words.end(), {"--set", setting});
  }
  return words;
}

const std::string& tiny_model() {
  static const Folder folder;
  static const std::string model = [] {
    std::string output = folder / "model";
    Words words = tiny_training();
    words.insert(words.end(), {"--output", output});
    const Result result = run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return output;
  }();
  return model;
}

std::string marian() { return HEED_FIXTURES "/marian"; }

std::string encoder(const std::string& name) { return HEED_FIXTURES "/encoders/" + name; }

}  // namespace heed::cli_test
