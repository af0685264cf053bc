// The error rates of transcripts, as the Python package jiwer 4.0 computes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// The number of edits, and the length of the references, over all texts.
struct ErrorRate {
  std::int64_t errors = 0;      ///< the fewest substitutions, deletions and insertions
  std::int64_t references = 0;  ///< words or characters of the references

  /// 100 · errors / references, which may exceed 100. If `references` is 0: 0 without errors, 100 with
  /// errors.
  double percent() const;
};

/// Word error rate (WER). White space separates words; case and punctuation count. Throws Error if there are
/// not as many references as hypotheses.
ErrorRate word_error_rate(const std::vector<std::string>& hypotheses,
                          const std::vector<std::string>& references);

/// Character error rate (CER), over code points. Spaces count, except white space at the ends of a text.
/// Throws Error as above.
ErrorRate character_error_rate(const std::vector<std::string>& hypotheses,
                               const std::vector<std::string>& references);

}  // namespace heed
