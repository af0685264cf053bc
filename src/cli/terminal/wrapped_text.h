// Text that is written to a terminal while it comes, with lines that end between words.
#pragma once

#include <string>
#include <string_view>

namespace heed::cli {

/// Threads: one at a time.
class WrappedText {
 public:
  explicit WrappedText(int width) : width_(width) {}
  /// Takes more of the text, valid UTF-8 in whole characters, and returns what can be shown. The word that is
  /// not complete is held back.
  std::string add(std::string_view text);
  /// Returns the rest, and begins anew.
  std::string finish();

 private:
  void end_word(std::string& out);

  int width_;
  int column_ = 0;
  std::string spaces_, word_;  // not shown yet
};

}  // namespace heed::cli
