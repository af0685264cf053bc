// MarkedText: UTF-8 that remembers which of its bytes came from the user, and which the model generates,
// through whatever a template does to it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "heed/chat/chat_template.h"

namespace heed::chat {

enum class Mark { data, generated };

class MarkedText {
 public:
  MarkedText() = default;
  /// Text of the template itself.
  explicit MarkedText(std::string bytes) : bytes_(std::move(bytes)) {}

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// The spans of a mark: ascending, with gaps between them.
  const std::vector<TextSpan>& spans(Mark mark) const { return spans_[static_cast<std::size_t>(mark)]; }
  /// Whether it counts as HTML, after the filters `safe` and `escape`: what is added to it is escaped first.
  bool is_html() const { return html_; }
  void set_html() { html_ = true; }
  /// Marks all of it.
  void mark(Mark mark);

  void append(std::string_view plain) { bytes_ += plain; }
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  /// Appends the bytes begin .. end - 1 of another text.
  void append(const MarkedText& other, std::size_t begin, std::size_t end);
  MarkedText part(std::size_t begin, std::size_t end) const;
  /// Returns `bytes`, which were made from this text in a way that does not tell what became of each
  /// character: all are marked if any was.
  MarkedText derived(std::string bytes) const;
  /// The same, appended to `out`.
  void append_derived(MarkedText& out, std::string_view bytes) const;

 private:
  std::string bytes_;
  bool html_ = false;
  std::array<std::vector<TextSpan>, 2> spans_;
};

/// Returns where the character `index` of valid UTF-8 begins; its size if there are fewer.
std::size_t character_start(std::string_view text, std::size_t index);
/// std::string_view::find in linear time, whatever the texts.
std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0);
/// Returns the characters of valid UTF-8, each as its bytes.
std::vector<std::string_view> characters_of(std::string_view text);

}  // namespace heed::chat
