// Runs the real heed command, as a shell would, and what its tests share: folders, files and a tiny model.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace heed::cli_test {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// What a run left: its exit status (128 + signal for one that was killed) and what it wrote.
struct Result {
  int status = -1;
  std::string out;
  std::string err;
};

/// Runs `heed --threads 1 WORDS...` (without --threads where the words have it) with `input` on stdin. Its
/// stdout goes to `out_file` where that is given.
Result run(const Words& words, const std::string& input = "", const std::string& out_file = "");

/// The same without waiting; its output is thrown away.
pid_t start(const Words& words);
/// Waits for it; the exit status as in Result.
int wait_for(pid_t process);

/// A run that is written to and read from while it goes on.
class Dialogue {
 public:
  explicit Dialogue(const Words& words);
  ~Dialogue();
  Dialogue(const Dialogue&) = delete;
  Dialogue& operator=(const Dialogue&) = delete;
  void write(const std::string& text) const;
  /// The next line of its stdout, without its line feed; what is left where it ends.
  std::string read_line() const;
  /// The next `count` bytes of its stdout, or what is left where it ends.
  std::string read(std::size_t count) const;
  void signal(int number) const;
  /// Closes its stdin, and waits for its end; the exit status as in Result.
  int finish();

 private:
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
};

/// The lines of a text, each ended by a line feed.
Words lines(const std::string& text);
/// Every line as JSON.
std::vector<Json> json_lines(const std::string& text);

/// Ids as the command line takes them: "5,6,0".
std::string joined(const Json& ids);

std::string slurp(const std::filesystem::path& file);
void spill(const std::filesystem::path& file, const std::string& content);
Words listing(const std::filesystem::path& folder);

/// A folder for one test, removed afterwards.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The reverse recipe cut down to a second of work; `--set` and `--output` may follow.
Words tiny_training();
/// What tiny_training() trains, trained once: it knows letters, but little about reversing.
const std::string& tiny_model();

/// The fixture with weights and no tokenizer.
std::string marian();
/// The fixture of an encoder, by its name in fixtures/encoders.
std::string encoder(const std::string& name);

}  // namespace heed::cli_test
