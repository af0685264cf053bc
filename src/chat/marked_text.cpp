// Spans that follow the text.
#include "chat/marked_text.h"

#include <string.h>

#include <algorithm>

#include "core/utf8.h"

namespace heed::chat {
namespace {

void add_span(std::vector<TextSpan>& spans, TextSpan span) {
  if (span.begin == span.end) return;
  if (!spans.empty() && spans.back().end == span.begin) {
    spans.back().end = span.end;
  } else {
    spans.push_back(span);
  }
}

}  // namespace

void MarkedText::mark(Mark mark) {
  auto& spans = spans_[static_cast<std::size_t>(mark)];
  spans.clear();
  add_span(spans, {0, size()});
}

void MarkedText::append(const MarkedText& other, std::size_t begin, std::size_t end) {
  const std::size_t shift = size();
  for (std::size_t mark = 0; mark < spans_.size(); ++mark) {
    const auto& from = other.spans_[mark];
    auto span =
        std::upper_bound(from.begin(), from.end(), begin,
                         [](std::size_t at, const TextSpan& other_span) { return at < other_span.end; });
    for (; span != from.end() && span->begin < end; ++span) {
      add_span(spans_[mark],
               {std::max(span->begin, begin) - begin + shift, std::min(span->end, end) - begin + shift});
    }
  }
  bytes_.append(other.bytes_, begin, end - begin);
}

MarkedText MarkedText::part(std::size_t begin, std::size_t end) const {
  MarkedText result;
  result.html_ = html_;
  result.append(*this, begin, end);
  return result;
}

MarkedText MarkedText::derived(std::string bytes) const {
  MarkedText result(std::move(bytes));
  result.html_ = html_;
  for (const Mark mark : {Mark::data, Mark::generated}) {
    if (!spans(mark).empty()) result.mark(mark);
  }
  return result;
}

void MarkedText::append_derived(MarkedText& out, std::string_view bytes) const {
  out.append(derived(std::string(bytes)));
}

std::size_t character_start(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (at < text.size() && index > 0) {
    const std::size_t ascii = std::min(ascii_run(text, at), index);
    at += ascii;
    index -= ascii;
    if (index == 0 || at == text.size()) break;
    at += utf8_length(text[at]);
    --index;
  }
  return at;
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return text.npos;
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? text.npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = utf8_length(text[at]);
    characters.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return characters;
}

}  // namespace heed::chat
