// The texts that a command processes: its arguments, the lines of stdin, or those of a file; and
// conversations.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "heed/sound/sound.h"
#include "heed/tensor.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {

/// Returns `text` with invalid UTF-8 replaced, with a warning that names `where` unless `quiet`.
std::string valid_text(const std::string& text, const std::string& where, bool quiet);

/// For the metadata of tensors: NAME.N, the tokens of row N as a JSON list.
void add_tokens(std::map<std::string, std::string>& metadata, const std::string& name,
                std::span<const Encoding> encodings);

/// Returns `arguments` if there are any, otherwise every line of stdin, each passed through valid_text.
std::vector<std::string> read_texts(const std::vector<std::string>& arguments, bool quiet);

/// The same in windows of at most `most` texts, so that a long input needs little memory. A window takes the
/// lines of stdin that are available and waits only for its first line, so that a program (or a person) that
/// writes a line and waits gets its answer.
class TextWindows {
 public:
  /// `arguments` must outlive this.
  TextWindows(const std::vector<std::string>& arguments, bool quiet, std::size_t most = 2048)
      : arguments_(arguments), quiet_(quiet), most_(most) {}
  /// Fills `window` with the next texts, unchanged: of several processes, with this one's part of what the
  /// first one reads, which may be empty. Returns false if there are none left. Throws Error if stdin cannot
  /// be read, and Canceled after Ctrl-C.
  bool next(std::vector<std::string>& window);
  /// The number of the window's first line, counted from 0.
  std::size_t first_line() const { return first_line_; }
  /// Returns true if there are no texts left. Waits if that is not known yet.
  bool at_end();

 private:
  void read(std::vector<std::string>& window);

  const std::vector<std::string>& arguments_;
  bool quiet_;
  std::size_t most_;
  std::size_t at_ = 0;
  std::size_t first_line_ = 0;
  std::size_t next_line_ = 0;  // of all processes
};

/// All tensors of a safetensors file.
TensorMap read_tensors(const std::filesystem::path& file);

/// Texts as arguments give them. If each is the name of a file, or looks like one, a warning tells, unless
/// `quiet`, that it is read as text.
std::vector<std::string> text_arguments(const std::vector<std::string>& arguments, bool quiet);

/// Names of image or sound files as arguments give them, with the standard input's for `-`. Throws UsageError
/// for several of those.
std::vector<std::string> file_arguments(const std::vector<std::string>& arguments);

/// Opens a recording. One that is cut is read as far as it goes, with a warning unless `quiet`.
SoundReader open_sound(const std::string& file, std::int64_t rate, bool quiet);

/// Returns all lines of a file, each passed through valid_text.
std::vector<std::string> read_lines(const std::string& path, bool quiet);

/// --messages, --chat and --system.
struct ChatArguments {
  std::filesystem::path messages;
  bool chat = false;
  std::optional<std::string> system;

  /// Adds --messages alone.
  CLI::Option* add_messages_to(CLI::App& command);
  void add_to(CLI::App& command);
  /// Whether texts are messages.
  bool of_texts() const { return chat || system.has_value(); }
  bool any() const { return of_texts() || !messages.empty(); }
};

/// A conversation as JSON, and where it is from, for messages.
struct GivenChat {
  std::string json, where;
};

/// How long an answer may be without an option: `longest` of GenerationArguments::add_to.
inline constexpr const char* kLongestAnswer =
    "up to the length of texts that the model was trained on, or 512";

/// Reads a file of conversations, `-` for stdin: JSON, a list of messages or an object with messages; or one
/// of these a line. Throws Error if it has none, or does not exist: OPTION names it.
std::vector<GivenChat> read_chats(const std::filesystem::path& file, const char* option);

/// The conversation of one user's message, after that of the system if there is one, as JSON.
std::string chat_of(const std::string& text, const std::optional<std::string>& system);

}  // namespace heed::cli
