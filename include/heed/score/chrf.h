// chrF (Popović, "chrF: character n-gram F-score for automatic MT evaluation", WMT 2015) and chrF++ (Popović,
// WMT 2017) as sacreBLEU computes them: white space is removed, and precisions and recalls are averaged over
// the orders for which both sides have n-grams. Invalid UTF-8 is read as U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

struct ChrfOptions {
  int char_order = 6;
  int word_order = 0;  // 2 gives chrF++
  int beta = 2;        // weight of recall relative to precision
  bool lowercase = false;
};

struct ChrfScore {
  double score = 0;  // 0 to 100
  std::string name;  // chrF2, or chrF2++ for a word order of 2

  /// `chrF2 = 59.73`
  std::string format() const;
};

/// chrF = 100 · (1 + β²) P R / (β² P + R), where P and R are the mean precision and recall over the n-gram
/// orders, with counts pooled over all lines. Each line counts against the reference with its best score.
/// `references` holds one or more streams, each with one line per hypothesis. Throws Error if there are no
/// hypotheses, no references or no positive order, or if a stream has another length.
ChrfScore corpus_chrf(const std::vector<std::string>& hypotheses,
                      const std::vector<std::vector<std::string>>& references,
                      const ChrfOptions& options = {});

/// Returns the chrF of one line. Throws Error if there are no references.
ChrfScore sentence_chrf(const std::string& hypothesis, const std::vector<std::string>& references,
                        const ChrfOptions& options = {});

/// Returns the signature with sacreBLEU's fields,
/// `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:heed-0.1.0`; the version shows that heed computed
/// the score.
std::string chrf_signature(std::int64_t references, const ChrfOptions& options = {});

}  // namespace heed
