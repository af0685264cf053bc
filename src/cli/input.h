// The texts a command works on: its arguments, the lines of stdin, or those of a file.
#pragma once

#include <string>
#include <vector>

namespace heed::cli {

/// The command line as CLI11 may see it: it would take the brackets of a text "[MASK]" for those of a list,
/// so that such words are marked. The functions below take the mark off.
std::vector<std::string> with_brackets_kept(int argc, char** argv);

/// A word of that command line as it was typed.
std::string without_mark(const std::string& word);

/// `text` with invalid UTF-8 replaced, with a warning that names `where` unless `quiet`.
std::string valid_text(const std::string& text, const std::string& where, bool quiet);

/// `arguments` if there are any, otherwise every line of stdin; all of them valid_text.
std::vector<std::string> read_texts(const std::vector<std::string>& arguments, bool quiet);

/// The same in windows of at most `most` texts, so that a long input needs little memory, and a program (or
/// somebody) that writes a line and waits gets its answer: a window takes the lines of stdin that are there,
/// and waits for its first one only.
class TextWindows {
 public:
  /// `arguments` must outlive this.
  TextWindows(const std::vector<std::string>& arguments, bool quiet, std::size_t most = 2048)
      : arguments_(arguments), quiet_(quiet), most_(most) {}
  /// Fills `window` with the next texts as they came; false when there are none left. Throws Error when stdin
  /// cannot be read, Cancelled after Ctrl-C.
  bool next(std::vector<std::string>& window);
  /// Whether there are none left; waits where that is not known yet.
  bool at_end();

 private:
  const std::vector<std::string>& arguments_;
  bool quiet_;
  std::size_t most_;
  std::size_t at_ = 0;
};

/// All lines of a file, valid_text.
std::vector<std::string> read_lines(const std::string& path, bool quiet);

}  // namespace heed::cli
