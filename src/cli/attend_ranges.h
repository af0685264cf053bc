// The options --queries and --keys of heed attend: a part of the positions, in all that is recorded and
// shown.
#pragma once

#include <string>

#include "cli/attend_input.h"
#include "heed/inspect/record.h"
#include "heed/plot/picture.h"

namespace heed::cli {

/// The values of the options as they were given; empty: all positions.
struct AttendRanges {
  std::string queries, keys;

  bool all() const { return queries.empty() && keys.empty(); }
  /// Throws UsageError for what is no range.
  TapSelection selection() const;
  /// `queries 3:8, keys :4`.
  std::string text() const;
};

/// Throws UsageError unless the ranges lie within the tokens of each kind.
void check_ranges(const AttendRanges& ranges, const AttendInput& input,
                  const std::vector<AttentionKind>& kinds);

/// The chosen part of a record of all positions.
AttentionRecord cut_record(const AttendRanges& ranges, const AttentionRecord& record);

/// Cuts the tokens of a picture, what belongs to them, and those of its maps that have all positions. An
/// image is left out where only some of its keys are shown.
void cut_picture(const AttendRanges& ranges, AttentionPicture& picture);

}  // namespace heed::cli
