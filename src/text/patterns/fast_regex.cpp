// Hand-written scanners for some well-known regular expressions, several times as fast as ICU. A scanner is
// chosen by the exact expression; tests check that it gives the same matches as ICU.
#include <utility>

#include "core/strings.h"
#include "core/utf8.h"
#include "text/patterns/pattern.h"
#include "text/unicode/character_class.h"

namespace heed {
namespace {

struct Look {
  char32_t character;
  std::uint8_t kind;
  std::size_t end;
};

Look look(std::string_view text, std::size_t at) {
  const char32_t c = next_character(text, at);
  return {c, character_class(c), at};
}

/// Returns the end of the run of characters of class `kind` that begins at `at`.
std::size_t run(std::string_view text, std::size_t at, std::uint8_t kind) {
  while (at < text.size()) {
    const Look next = look(text, at);
    if (next.kind != kind) break;
    at = next.end;
  }
  return at;
}

/// Matches `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll`, `'d` at an apostrophe. With `fold`, case is ignored, and
/// U+017F matches s.
std::size_t contraction(std::string_view text, std::size_t at, bool fold) {
  const auto letter = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    return fold ? ascii_lower(text[i]) : text[i];
  };
  const char first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (fold && text.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
  const bool two = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return two ? at + 3 : at;
}

/// Matches white space at `at` as `\s+(?!\S)|\s+` does: all of it at the end of the text, otherwise all but
/// the last character, but at least one.
std::size_t white_space(std::string_view text, std::size_t at) {
  std::size_t end = at, last = at;
  while (end < text.size()) {
    const Look next = look(text, end);
    if (next.kind != kSpace) break;
    last = end;
    end = next.end;
  }
  return end == text.size() || last == at ? end : last;
}

std::size_t scan_gpt2(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    if (const std::size_t end = contraction(text, at, false); end > at) return end;
  }
  const std::size_t begin = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  const Look first = look(text, begin);
  return first.kind == kSpace ? white_space(text, at) : run(text, first.end, first.kind);
}

bool is_line_end(char c) { return c == '\r' || c == '\n'; }

/// Returns the end of the last line end in the white space at `at`, or `at` if it has none.
std::size_t through_last_line_end(std::string_view text, std::size_t at) {
  std::size_t found = at;
  for (std::size_t end = at; end < text.size();) {
    const Look next = look(text, end);
    if (next.kind != kSpace) break;
    if (is_line_end(text[end])) found = next.end;
    end = next.end;
  }
  return found;
}

template <int kDigits>
std::size_t scan_cl100k(std::string_view text, std::size_t at) {
  if (text[at] == '\'') {
    if (const std::size_t end = contraction(text, at, true); end > at) return end;
  }
  const Look first = look(text, at);
  if (first.kind == kLetter) return run(text, first.end, kLetter);
  if (first.kind == kNumber) {
    std::size_t end = first.end;
    for (int digits = 1; digits < kDigits && end < text.size(); ++digits) {
      const Look next = look(text, end);
      if (next.kind != kNumber) break;
      end = next.end;
    }
    return end;
  }
  if (!is_line_end(text[at]) && first.end < text.size() && look(text, first.end).kind == kLetter) {
    return run(text, first.end, kLetter);
  }
  const std::size_t begin = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  if (const Look symbol = look(text, begin); symbol.kind == 0) {
    std::size_t end = run(text, symbol.end, 0);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  const std::size_t line_end = through_last_line_end(text, at);
  return line_end > at ? line_end : white_space(text, at);
}

bool in_bloom_set(char32_t c) {
  switch (c) {
    case '(':
    case ')':
    case '|':
    case '.':
    case ',':
    case '!':
    case '?':
    case 0x2026:
    case 0x3002:
    case 0xFF0C:
    case 0x3001:
    case 0x0964:
    case 0x06D4:
    case 0x060C: return true;
    default: return is_white_space(c);
  }
}

std::size_t scan_bloom(std::string_view text, std::size_t at) {
  const std::size_t begin = text[at] == ' ' ? at + 1 : at;
  std::size_t end = begin;
  while (end < text.size()) {
    std::size_t next = end;
    if (in_bloom_set(next_character(text, next))) break;
    end = next;
  }
  return end > begin ? end : at;
}

constexpr std::pair<std::string_view, Scanner> kScanners[] = {
    {kGpt2Expression, scan_gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_cl100k<3>},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     scan_cl100k<1>},
    {" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", scan_bloom},
};

}  // namespace

Scanner known_scanner(std::string_view expression) {
  for (const auto& known : kScanners) {
    if (known.first == expression) return known.second;
  }
  return nullptr;
}

}  // namespace heed
