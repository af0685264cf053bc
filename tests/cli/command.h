// Runs the real heed command as a shell would. Also shared by its tests: folders, files and a tiny model.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed::cli_test {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// The result of a run: its exit status (128 + signal if it was killed) and its output.
struct Result {
  int status = -1;
  std::string out;
  std::string err;
};

/// Runs `heed --threads 1 WORDS...` (without --threads if the words contain it) with `input` on stdin. Its
/// stdout goes to `out_file` if given.
Result run(const Words& words, const std::string& input = "", const std::string& out_file = "");

/// The same of WORDS MORE... --json.
Result run_json(Words words, const Words& more, const std::string& input = "");

/// Returns the stdout of a run that must succeed.
std::string output_of(const Words& words, const std::string& input = "");

/// Expects that the run fails with this status, nothing on stdout, and an error of one line that contains
/// `told`.
void expect_error(int status, const Words& words, const std::string& told, const std::string& input = "");

/// Runs it with a terminal as stdin, stdout and stderr, of `columns` (0: it does not say), where `input` is
/// typed. Returns all that it shows in `out`, where each line ends with a carriage return and a line feed.
Result run_on_terminal(const Words& words, const std::string& input = "", unsigned short columns = 0);

/// A running command with a terminal, where someone reads before typing.
class TerminalDialogue {
 public:
  /// `state` is its $XDG_STATE_HOME.
  TerminalDialogue(const Words& words, const std::string& state, unsigned short columns = 80);
  ~TerminalDialogue();
  TerminalDialogue(const TerminalDialogue&) = delete;
  TerminalDialogue& operator=(const TerminalDialogue&) = delete;
  void type(const std::string& keys) const;
  /// Reads until `text` is shown, and returns what is. Throws if the command ends before.
  std::string read_until(const std::string& text);
  /// Reads the rest and waits for its end.
  Result finish();

 private:
  pid_t process_ = -1;
  int terminal_ = -1;
};

/// The same without waiting; the output is discarded.
pid_t start(const Words& words);
/// Waits for the process. Returns the exit status as in Result.
int wait_for(pid_t process);

/// A running command with pipes to its stdin and from its stdout.
class Dialogue {
 public:
  explicit Dialogue(const Words& words);
  ~Dialogue();
  Dialogue(const Dialogue&) = delete;
  Dialogue& operator=(const Dialogue&) = delete;
  void write(const std::string& text) const;
  /// Returns the next line of its stdout, without the line feed, or the rest at the end.
  std::string read_line() const;
  /// Returns the next `count` bytes of its stdout, or the rest at the end.
  std::string read(std::size_t count) const;
  void signal(int number) const;
  /// Closes its stdin and waits for its end. Returns the exit status as in Result.
  int finish();

 private:
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
};

/// Splits a text into its lines, each of which must end with a line feed.
Words lines(const std::string& text);
/// Parses every line as JSON.
std::vector<Json> json_lines(const std::string& text);

/// Formats ids for the command line: "5,6,0".
std::string joined(const Json& ids);

/// A temporary folder whose files are words of a command.
struct Folder : TemporaryFolder {
  std::string operator/(const std::string& name) const { return (path() / name).string(); }
};

/// Returns the reverse recipe reduced to a second of work; `--set` and `--output` may follow.
Words tiny_training();
/// Returns the model of tiny_training(), trained once: it has learned letters, but little about reversing.
const std::string& tiny_model();

/// Returns the fixture with weights and without a tokenizer.
std::string marian();
/// Returns the fixture of an encoder, by its name in fixtures/encoders.
std::string encoder(const std::string& name);

}  // namespace heed::cli_test
