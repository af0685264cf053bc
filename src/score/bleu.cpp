// BLEU from pooled n-gram counts.
#include "heed/score/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "heed/error.h"
#include "score/segment.h"
#include "score/tokenize.h"

namespace heed {
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
