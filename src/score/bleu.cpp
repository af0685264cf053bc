// BLEU from pooled n-gram counts.
#include "heed/score/bleu.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "heed/error.h"
#include "score/segment.h"

namespace heed {
namespace score {

// BLEU's tokenizers. Each is a sequence of substitutions over code points; each substitution sees the result
// of the previous one. A rule for two neighbors consumes both, so that in `...` the second point cannot
// start another pair. Scores depend on this.
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

/// Inserts a space into every pair (a, b) of neighbors, and another one after or before it. Pairs do not
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

/// Splits a line into words after removing white space at its end and lower-casing it on request.
Words bleu_words(const std::string& line, const BleuOptions& options) {
  const std::u32string text = decode(line, options.lowercase);
  return Words(split(tokenize(strip_end(text), options.tokenizer)));
}

}  // namespace
}  // namespace score

namespace {

constexpr int kOrders = 4;
/// Replaces log 0: large enough to make the score vanish, finite so that sums are not NaN.
constexpr double kLogOfZero = -9999999999.0;

struct BleuCounts {
  std::array<std::int64_t, kOrders> matches{}, totals{};
  std::int64_t hypothesis_length = 0, reference_length = 0;
};

/// Returns the reference length nearest to `length`, the smaller one in a tie.
std::int64_t nearest_length(std::int64_t length, const std::vector<score::Words>& references) {
  std::int64_t nearest = references.front().size();
  for (const score::Words& reference : references) {
    const std::int64_t distance = std::abs(length - reference.size()), best = std::abs(length - nearest);
    if (distance < best || (distance == best && reference.size() < nearest)) nearest = reference.size();
  }
  return nearest;
}

void count_line(BleuCounts& counts, const std::string& hypothesis, const std::vector<std::string>& references,
                const BleuOptions& options) {
  const score::Words words = score::bleu_words(hypothesis, options);
  std::vector<score::Words> reference_words;
  for (const std::string& reference : references) {
    reference_words.push_back(score::bleu_words(reference, options));
  }
  for (int n = 1; n <= kOrders; ++n) {
    score::NGrams wanted;
    for (const score::Words& reference : reference_words) {
      wanted = score::merge_ngrams(wanted, reference.ngrams(n));
    }
    const score::NGrams found = words.ngrams(n);
    counts.matches[n - 1] += score::count_common(found, wanted);
    counts.totals[n - 1] += static_cast<std::int64_t>(found.size());
  }
  counts.hypothesis_length += words.size();
  counts.reference_length += nearest_length(words.size(), reference_words);
}

double brevity_penalty(const BleuCounts& counts) {
  if (counts.hypothesis_length >= counts.reference_length) return 1.0;
  if (counts.hypothesis_length == 0) return 0.0;
  return std::exp(1.0 - static_cast<double>(counts.reference_length) /
                            static_cast<double>(counts.hypothesis_length));
}

double smooth_value(const BleuOptions& options) {
  return options.smooth_value.value_or(options.smoothing == BleuSmoothing::kFloor ? 0.1 : 1.0);
}

/// Computes the precisions and returns the number of orders to average.
int smooth_precisions(std::array<double, kOrders>& precisions, const BleuCounts& counts,
                      const BleuOptions& options) {
  int orders = kOrders;
  double halvings = 1.0;
  for (int n = 1; n <= kOrders; ++n) {
    double matches = static_cast<double>(counts.matches[n - 1]),
           total = static_cast<double>(counts.totals[n - 1]);
    if (options.smoothing == BleuSmoothing::kAddK && n > 1) {
      matches += smooth_value(options);
      total += smooth_value(options);
    }
    if (total == 0) break;
    if (options.effective_order) orders = n;
    if (matches > 0) {
      precisions[n - 1] = 100.0 * matches / total;
    } else if (options.smoothing == BleuSmoothing::kExp) {
      halvings *= 2;
      precisions[n - 1] = 100.0 / (halvings * total);
    } else if (options.smoothing == BleuSmoothing::kFloor) {
      precisions[n - 1] = 100.0 * smooth_value(options) / total;
    }
  }
  return orders;
}

BleuScore score_of(const BleuCounts& counts, const BleuOptions& options) {
  BleuScore result;
  result.matches = counts.matches;
  result.totals = counts.totals;
  result.hypothesis_length = counts.hypothesis_length;
  result.reference_length = counts.reference_length;
  result.brevity_penalty = brevity_penalty(counts);
  const bool any =
      std::any_of(counts.matches.begin(), counts.matches.end(), [](std::int64_t m) { return m != 0; });
  if (!any) return result;
  const int orders = smooth_precisions(result.precisions, counts, options);
  double logs = 0;
  for (int n = 0; n < orders; ++n) {
    logs += result.precisions[n] == 0 ? kLogOfZero : std::log(result.precisions[n]);
  }
  result.score = result.brevity_penalty * std::exp(logs / orders);
  return result;
}

std::string smoothing_field(const BleuOptions& options) {
  switch (options.smoothing) {
    case BleuSmoothing::kExp: return "exp";
    case BleuSmoothing::kFloor: return fmt::format("floor[{:.2f}]", smooth_value(options));
    case BleuSmoothing::kAddK: return fmt::format("add-k[{:.2f}]", smooth_value(options));
    case BleuSmoothing::kNone: break;
  }
  return "none";
}

const char* tokenizer_field(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::k13a: return "13a";
    case BleuTokenizer::kIntl: return "intl";
    case BleuTokenizer::kChar: return "char";
    case BleuTokenizer::kNone: break;
  }
  return "none";
}

}  // namespace

std::string BleuScore::format() const {
  const double ratio = reference_length == 0
                           ? 0.0
                           : static_cast<double>(hypothesis_length) / static_cast<double>(reference_length);
  return fmt::format(
      "BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
      score, precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty, ratio,
      hypothesis_length, reference_length);
}

BleuScore corpus_bleu(const std::vector<std::string>& hypotheses,
                      const std::vector<std::vector<std::string>>& references, const BleuOptions& options) {
  score::check_streams("bleu", hypotheses, references);
  BleuCounts counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    count_line(counts, hypotheses[i], score::references_of_line(references, i), options);
  }
  return score_of(counts, options);
}

BleuScore sentence_bleu(const std::string& hypothesis, const std::vector<std::string>& references,
                        const BleuOptions& options) {
  if (references.empty()) throw Error("bleu: no references");
  BleuCounts counts;
  count_line(counts, hypothesis, references, options);
  return score_of(counts, options);
}

std::string bleu_signature(std::int64_t references, const BleuOptions& options) {
  return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}|version:{}", references,
                     options.lowercase ? "lc" : "mixed", options.effective_order ? "yes" : "no",
                     tokenizer_field(options.tokenizer), smoothing_field(options),
                     score::signature_version());
}

BleuTokenizer bleu_tokenizer_from_name(std::string_view name) {
  if (name == "13a") return BleuTokenizer::k13a;
  if (name == "intl") return BleuTokenizer::kIntl;
  if (name == "char") return BleuTokenizer::kChar;
  if (name == "none") return BleuTokenizer::kNone;
  throw Error(fmt::format("bleu: expected tokenizer 13a, intl, char or none, got `{}`", name));
}

BleuSmoothing bleu_smoothing_from_name(std::string_view name) {
  if (name == "exp") return BleuSmoothing::kExp;
  if (name == "floor") return BleuSmoothing::kFloor;
  if (name == "add-k") return BleuSmoothing::kAddK;
  if (name == "none") return BleuSmoothing::kNone;
  throw Error(fmt::format("bleu: expected smoothing exp, floor, add-k or none, got `{}`", name));
}

}  // namespace heed
