// ROUGE (Lin, "ROUGE: a package for automatic evaluation of summaries", 2004) as the Python package
// rouge-score 0.1.2 computes it: words are runs of a-z and 0-9 in the lower-case text; all other characters
// separate words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

struct RougeOptions {
  bool stemmer = false;  ///< words of more than three characters are stemmed (Porter, in NLTK's variant)
};

/// Precision P, recall R and F1 = 2 P R / (P + R), each 0 to 100; 0 where there is nothing to count.
struct RougeScore {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

struct RougeScores {
  RougeScore rouge1;     ///< common words, each counted as often as in both
  RougeScore rouge2;     ///< common pairs of neighboring words
  RougeScore rougeL;     ///< the longest common subsequence of words
  RougeScore rougeLsum;  ///< for each sentence of the reference (a line of the text), the union of its
                         ///< longest common subsequences with the sentences of the hypothesis

  /// `ROUGE-1 = 38.46  ROUGE-2 = 12.50  ROUGE-L = 30.77  ROUGE-Lsum = 30.77`: the F1 scores
  std::string format() const;
};

/// The scores of one text. With several references, each of the four scores is that against the reference
/// with the highest F1, the first one in a tie. Throws Error if there are no references.
RougeScores sentence_rouge(const std::string& hypothesis, const std::vector<std::string>& references,
                           const RougeOptions& options = {});

/// The means of sentence_rouge over all texts. `references` holds one or more streams, each with one text per
/// hypothesis; an empty text in a stream after the first counts as no reference. Throws Error if there are no
/// hypotheses or no references, or if a stream has another length.
RougeScores corpus_rouge(const std::vector<std::string>& hypotheses,
                         const std::vector<std::vector<std::string>>& references,
                         const RougeOptions& options = {});

/// Returns `nrefs:1|stem:no|version:heed-0.1.0`; the version shows that heed computed the score.
std::string rouge_signature(std::int64_t references, const RougeOptions& options = {});

}  // namespace heed
