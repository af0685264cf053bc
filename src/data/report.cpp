#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heed/data/corpus.h"
#include "heed/error.h"

namespace heed {

namespace {

const char* describe(SkipReason reason) {
  switch (reason) {
    case SkipReason::not_utf8: return "not UTF-8";
    case SkipReason::wrong_columns: return "wrong number of columns";
    case SkipReason::empty_side: return "empty side";
    case SkipReason::too_many_characters: return "too many characters";
    case SkipReason::character_ratio: return "lengths too different (characters)";
    case SkipReason::too_many_tokens: return "too many tokens";
    case SkipReason::token_ratio: return "lengths too different (tokens)";
  }
  HEED_ASSERT(false, "unknown reason");
}

}  // namespace

void DataReport::skip(SkipReason reason, std::int64_t line) {
  Skipped& entry = skipped[static_cast<std::size_t>(reason)];
  ++entry.count;
  if (entry.lines.size() < kLinesKept) entry.lines.push_back(line);
}

std::string DataReport::summary() const {
  std::string text = fmt::format("{} lines, {} kept, {} skipped", lines, kept, skipped_count());
  for (std::size_t i = 0; i < kReasons; ++i) {
    const Skipped& entry = skipped[i];
    if (entry.count == 0) continue;
    const bool more = entry.count > static_cast<std::int64_t>(entry.lines.size());
    text += fmt::format("\n  {}: {} (line{} {}{})", describe(static_cast<SkipReason>(i)), entry.count,
                        entry.count == 1 ? "" : "s", fmt::join(entry.lines, ", "), more ? ", ..." : "");
  }
  return text;
}

}  // namespace heed
