// The rules of Whisper's timestamps, as a processor of scores (OpenAI's whisper, ApplyTimestampRules):
//   - the first token is a timestamp, at most the largest initial one
//   - timestamps come in pairs: the end of a segment and the start of the next; a single one may stand before
//     the end token
//   - no timestamp is before an earlier one, and no segment is empty
//   - a timestamp is chosen where all of them together are likelier than the likeliest other token
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace heed::generate {

struct TimestampRules {
  std::int64_t end = 0;            ///< the end token; tokens before it are text
  std::int64_t no_timestamps = 0;  ///< the token <|notimestamps|>; those after it are timestamps
  std::optional<std::int64_t> most_initial = {};  ///< of the first timestamp, counted from 0.00

  std::int64_t first() const { return no_timestamps + 1; }
  /// Changes the scores [V], logits or log-probabilities, of the token after the new tokens `ids`.
  void apply(std::span<const std::int64_t> ids, std::span<float> scores) const;
};

}  // namespace heed::generate
