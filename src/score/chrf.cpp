// chrF from pooled n-gram counts.
#include "heed/score/chrf.h"

#include <fmt/format.h>

#include <string_view>

#include "heed/error.h"
#include "score/segment.h"

namespace heed {
namespace {

struct OrderCounts {
  std::int64_t hypothesis = 0, reference = 0, matches = 0;
};
using ChrfCounts = std::vector<OrderCounts>;  // character orders, then word orders

bool is_ascii_punctuation(char32_t c) {
  return (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') ||
         (c >= U'{' && c <= U'~');
}

/// Returns words with one punctuation mark removed: the last character if it is one, otherwise the first.
std::vector<std::u32string_view> words_without_punctuation(std::u32string_view text) {
  std::vector<std::u32string_view> words;
  for (const std::u32string_view word : score::split(text)) {
    const std::size_t last = word.size() - 1;
    std::size_t cut = 0;
    if (last > 0 && is_ascii_punctuation(word.back())) {
      cut = last;
    } else if (last > 0 && is_ascii_punctuation(word.front())) {
      cut = 1;
    }
    if (cut > 0) words.push_back(word.substr(0, cut));
    words.push_back(word.substr(cut));
  }
  return words;
}

/// A line's n-grams of every order.
class Line {
 public:
  Line(const std::string& text, const ChrfOptions& options)
      : points_(score::decode(text, options.lowercase)), words_(words_without_punctuation(points_)) {
    std::erase_if(points_, score::is_space);
    for (int n = 1; n <= options.char_order; ++n) orders_.push_back(score::char_ngrams(points_, n));
    for (int n = 1; n <= options.word_order; ++n) orders_.push_back(words_.ngrams(n));
  }
  Line(const Line&) = delete;  // the n-grams are views into this object
  Line& operator=(const Line&) = delete;
  const std::vector<score::NGrams>& orders() const { return orders_; }

 private:
  std::u32string points_;
  score::Words words_;
  std::vector<score::NGrams> orders_;
};

double f_score(const ChrfCounts& counts, int beta) {
  double precision = 0, recall = 0;
  int orders = 0;
  for (const OrderCounts& order : counts) {
    if (order.hypothesis == 0 || order.reference == 0) continue;
    precision += static_cast<double>(order.matches) / static_cast<double>(order.hypothesis);
    recall += static_cast<double>(order.matches) / static_cast<double>(order.reference);
    ++orders;
  }
  if (orders == 0 || precision + recall == 0) return 0.0;
  precision /= orders;
  recall /= orders;
  const double factor = static_cast<double>(beta) * beta;
  return 100.0 * (1 + factor) * precision * recall / (factor * precision + recall);
}

/// Returns the counts against the reference with the best score, the first one in a tie.
ChrfCounts count_line(const std::string& hypothesis, const std::vector<std::string>& references,
                      const ChrfOptions& options) {
  const Line line(hypothesis, options);
  ChrfCounts best;
  double best_score = -1;
  for (const std::string& text : references) {
    const Line reference(text, options);
    ChrfCounts counts;
    for (std::size_t i = 0; i < line.orders().size(); ++i) {
      const score::NGrams &found = line.orders()[i], &wanted = reference.orders()[i];
      // An order that the reference is too short for is not counted, also in the pooled sums.
      counts.push_back({wanted.empty() ? 0 : static_cast<std::int64_t>(found.size()),
                        static_cast<std::int64_t>(wanted.size()), score::count_common(found, wanted)});
    }
    const double score = f_score(counts, options.beta);
    if (score > best_score) {
      best_score = score;
      best = counts;
    }
  }
  return best;
}

void check_options(const ChrfOptions& options) {
  if (options.char_order >= 0 && options.word_order >= 0 && options.char_order + options.word_order > 0 &&
      options.beta > 0) {
    return;
  }
  throw Error(
      fmt::format("chrf: expected orders of at least 0, one of them and beta positive, got characters {}, "
                  "words {}, beta {}",
                  options.char_order, options.word_order, options.beta));
}

ChrfScore score_of(const ChrfCounts& counts, const ChrfOptions& options) {
  const std::string pluses(static_cast<std::size_t>(options.word_order), '+');
  return {f_score(counts, options.beta), fmt::format("chrF{}{}", options.beta, pluses)};
}

}  // namespace

std::string ChrfScore::format() const { return fmt::format("{} = {:.2f}", name, score); }

ChrfScore corpus_chrf(const std::vector<std::string>& hypotheses,
                      const std::vector<std::vector<std::string>>& references, const ChrfOptions& options) {
  score::check_streams("chrf", hypotheses, references);
  check_options(options);
  ChrfCounts sum(static_cast<std::size_t>(options.char_order + options.word_order));
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const ChrfCounts line = count_line(hypotheses[i], score::references_of_line(references, i), options);
    for (std::size_t n = 0; n < sum.size(); ++n) {
      sum[n].hypothesis += line[n].hypothesis;
      sum[n].reference += line[n].reference;
      sum[n].matches += line[n].matches;
    }
  }
  return score_of(sum, options);
}

ChrfScore sentence_chrf(const std::string& hypothesis, const std::vector<std::string>& references,
                        const ChrfOptions& options) {
  if (references.empty()) throw Error("chrf: no references");
  check_options(options);
  return score_of(count_line(hypothesis, references, options), options);
}

std::string chrf_signature(std::int64_t references, const ChrfOptions& options) {
  return fmt::format("nrefs:{}|case:{}|eff:yes|nc:{}|nw:{}|space:no|version:{}", references,
                     options.lowercase ? "lc" : "mixed", options.char_order, options.word_order,
                     score::signature_version());
}

}  // namespace heed
