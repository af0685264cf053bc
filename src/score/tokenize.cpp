// BLEU's tokenizers. Each is a sequence of substitutions over code points; each substitution sees the result
// of the previous one. A rule for two neighbours consumes both, so that in `...` the second point cannot
// start another pair. Scores depend on this.
#include "score/tokenize.h"

#include <unicode/uchar.h>

#include <string_view>

namespace heed::score {
namespace {

using Predicate = bool (*)(char32_t);

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
bool is_no_digit(char32_t c) { return !is_digit(c); }
bool is_stop(char32_t c) { return c == U'.' || c == U','; }
bool is_hyphen(char32_t c) { return c == U'-'; }

/// Returns true for ASCII punctuation except apostrophe, comma, hyphen and full stop.
bool is_mark(char32_t c) {
  return (c >= U'{' && c <= U'~') || (c >= U'[' && c <= U'`') || (c >= U' ' && c <= U'&') ||
         (c >= U'(' && c <= U'+') || (c >= U':' && c <= U'@') || c == U'/';
}

std::uint32_t category_mask(char32_t c) { return U_MASK(u_charType(static_cast<UChar32>(c))); }
bool is_punctuation(char32_t c) { return (category_mask(c) & U_GC_P_MASK) != 0; }
bool is_symbol(char32_t c) { return (category_mask(c) & U_GC_S_MASK) != 0; }
bool is_no_number(char32_t c) { return (category_mask(c) & U_GC_N_MASK) == 0; }

void replace_all(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  for (std::size_t i = text.find(from); i != std::u32string::npos; i = text.find(from, i + to.size())) {
    text.replace(i, from.size(), to);
  }
}

/// Puts spaces around every code point for which `is_one` is true.
std::u32string set_apart(std::u32string_view text, Predicate is_one) {
  std::u32string out;
  for (const char32_t c : text) {
    if (is_one(c)) {
      out += {U' ', c, U' '};
    } else {
      out += c;
    }
  }
  return out;
}

enum class Space { kAfterBoth, kBeforeBoth };

/// Inserts a space into every pair (a, b) of neighbours, and another one after or before it. Pairs do not
/// overlap.
std::u32string split_pairs(std::u32string_view text, Predicate is_a, Predicate is_b, Space outer) {
  std::u32string out;
  std::size_t i = 0;
  while (i < text.size()) {
    if (i + 1 < text.size() && is_a(text[i]) && is_b(text[i + 1])) {
      if (outer == Space::kBeforeBoth) out += U' ';
      out += {text[i], U' ', text[i + 1]};
      if (outer == Space::kAfterBoth) out += U' ';
      i += 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::u32string tokenize_13a(std::u32string_view line) {
  std::u32string text(line);
  replace_all(text, U"<skipped>", U"");
  replace_all(text, U"-\n", U"");
  replace_all(text, U"\n", U" ");
  // The order matters: `&amp;lt;` becomes `<`.
  replace_all(text, U"&quot;", U"\"");
  replace_all(text, U"&amp;", U"&");
  replace_all(text, U"&lt;", U"<");
  replace_all(text, U"&gt;", U">");
  text = set_apart(U" " + text + U" ", is_mark);
  text = split_pairs(text, is_no_digit, is_stop, Space::kAfterBoth);
  text = split_pairs(text, is_stop, is_no_digit, Space::kBeforeBoth);
  return split_pairs(text, is_digit, is_hyphen, Space::kAfterBoth);
}

std::u32string tokenize_intl(std::u32string_view line) {
  std::u32string text = split_pairs(line, is_no_number, is_punctuation, Space::kAfterBoth);
  text = split_pairs(text, is_punctuation, is_no_number, Space::kBeforeBoth);
  return set_apart(text, is_symbol);
}

std::u32string tokenize(std::u32string_view line, BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::k13a: return tokenize_13a(line);
    case BleuTokenizer::kIntl: return tokenize_intl(line);
    case BleuTokenizer::kChar: return set_apart(line, [](char32_t) { return true; });
    case BleuTokenizer::kNone: break;
  }
  return std::u32string(line);
}

}  // namespace

Words bleu_words(const std::string& line, const BleuOptions& options) {
  const std::u32string text = decode(line, options.lowercase);
  return Words(split(tokenize(strip_end(text), options.tokenizer)));
}

}  // namespace heed::score
