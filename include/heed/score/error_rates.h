// The error rates of transcripts, as the Python package jiwer 4.0 computes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// Edits and what they are counted against, over all texts.
struct ErrorRate {
  std::int64_t errors = 0;      ///< the fewest substitutions, deletions and insertions
  std::int64_t references = 0;  ///< words or characters of the references

  /// 100 · errors / references, which may be above 100; without references 0, or 100 with errors.
  double percent() const;
};

/// Of words, which white space separates (WER). Case and punctuation count. Throws Error if there are not as
/// many references as hypotheses.
ErrorRate word_error_rate(const std::vector<std::string>& hypotheses,
                          const std::vector<std::string>& references);

/// Of characters (code points), spaces included, but white space at the ends of a text (CER). Errors as
/// above.
ErrorRate character_error_rate(const std::vector<std::string>& hypotheses,
                               const std::vector<std::string>& references);

}  // namespace heed
