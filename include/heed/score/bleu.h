// BLEU (Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002) as
// sacreBLEU defines it (Post, "A call for clarity in reporting BLEU scores", WMT 2018): tokenization is part
// of the score, lines are plain untokenized text, and a signature identifies the variant of BLEU. The maximum
// n-gram order is 4. Invalid UTF-8 is read as U+FFFD.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// How a line is split into words: 13a (mteval-v13a, used by WMT), intl (mteval-v14: every Unicode
/// punctuation mark and symbol), char (a word is a code point), none (split at white space).
enum class BleuTokenizer { k13a, kIntl, kChar, kNone };

/// Smoothing of orders without a match (Chen and Cherry, WMT 2014): exp halves the count for each such order,
/// floor uses `smooth_value` matches (0.1), add-k adds `smooth_value` (1) to matches and totals of orders 2
/// to 4.
enum class BleuSmoothing { kExp, kFloor, kAddK, kNone };

struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::k13a;
  BleuSmoothing smoothing = BleuSmoothing::kExp;
  std::optional<double> smooth_value;  // for floor and add-k; nullopt: their defaults
  bool lowercase = false;
  bool effective_order = false;  // average only over the orders that the hypothesis is long enough for
};

struct BleuScore {
  double score = 0;                       // 0 to 100
  std::array<double, 4> precisions{};     // of each n-gram order, smoothed, 0 to 100
  std::array<std::int64_t, 4> matches{};  // n-grams that occur in a reference, before smoothing
  std::array<std::int64_t, 4> totals{};   // n-grams of the hypotheses
  double brevity_penalty = 1;
  std::int64_t hypothesis_length = 0;  // in words
  std::int64_t reference_length = 0;   // of the reference nearest in length, summed over lines

  /// `BLEU = 45.12 70.1/50.2/40.3/31.4 (BP = 1.000 ratio = 1.002 hyp_len = 990 ref_len = 988)`
  std::string format() const;
};

/// BLEU = BP · exp(¼ Σₙ log pₙ), BP = min(1, exp(1 − r/c)), with pₙ and the lengths pooled over all lines.
/// `references` holds one or more streams, each with one line per hypothesis. Throws Error if there are no
/// hypotheses or no references, or if a stream has another length.
BleuScore corpus_bleu(const std::vector<std::string>& hypotheses,
                      const std::vector<std::vector<std::string>>& references,
                      const BleuOptions& options = {});

/// Returns the BLEU of one line against its references. Set `effective_order` for single lines. Throws Error
/// if there are no references.
BleuScore sentence_bleu(const std::string& hypothesis, const std::vector<std::string>& references,
                        const BleuOptions& options = {});

/// Returns the signature with sacreBLEU's fields,
/// `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-0.1.0`; the version shows that heed computed
/// the score.
std::string bleu_signature(std::int64_t references, const BleuOptions& options = {});

/// sacreBLEU's names: `13a`, `intl`, `char`, `none`. Throws Error for any other.
BleuTokenizer bleu_tokenizer_from_name(std::string_view name);

/// sacreBLEU's names: `exp`, `floor`, `add-k`, `none`. Throws Error for any other.
BleuSmoothing bleu_smoothing_from_name(std::string_view name);

// BLEU by the length of the source: the plot of Bahdanau, Cho and Bengio 2015 (figure 2) that shows how much
// of a long sentence a model loses.

/// The lines whose source has `from` to `to` words (separated by white space).
struct LengthGroup {
  std::int64_t from = 0, to = 0;
  std::int64_t lines = 0;
  double mean_words = 0;  ///< of the sources
  BleuScore bleu;
};

/// BLEU of the lines in groups of `width` lengths: 1 to width words, width + 1 to 2 width, ... Groups without
/// lines are left out, and empty sources belong to none. Throws Error where corpus_bleu does, if there are
/// not as many sources as hypotheses, or if `width` is below 1.
std::vector<LengthGroup> bleu_by_length(const std::vector<std::string>& sources,
                                        const std::vector<std::string>& hypotheses,
                                        const std::vector<std::vector<std::string>>& references,
                                        std::int64_t width, const BleuOptions& options = {});

}  // namespace heed
