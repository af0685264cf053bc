// Parses names of taps and their selections.
#include "inspect/tap_request.h"

#include <charconv>

#include "heed/error.h"

namespace heed::inspect {
namespace {

[[noreturn]] void refuse_tap(const std::string& text) {
  throw Error("expected NAME or NAME[heads=0:4,queries=3,keys=:8], got " + text);
}

std::optional<std::int64_t> index_in(const std::string& digits) {
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> split_taps(const std::string& list) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<TapRange> tap_range(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string begin = text.substr(0, colon);
  const std::optional<std::int64_t> first = begin.empty() ? 0 : index_in(begin);
  if (!first || text.empty()) return std::nullopt;
  if (colon == std::string::npos) return TapRange{*first, *first + 1};
  if (colon + 1 == text.size()) return TapRange{*first, std::nullopt};
  const std::optional<std::int64_t> end = index_in(text.substr(colon + 1));
  if (!end || *end <= *first) return std::nullopt;
  return TapRange{*first, end};
}

TapRequest parse_tap(const std::string& text) {
  constexpr std::int64_t kMostHeads = 1 << 16;
  const std::size_t open = text.find('[');
  TapRequest request{text.substr(0, open), open == std::string::npos ? "" : text.substr(open), {}};
  if (request.pattern.empty()) refuse_tap(text);
  if (request.brackets.empty()) return request;
  if (!text.ends_with("]")) refuse_tap(text);
  const std::string inside = request.brackets.substr(1, request.brackets.size() - 2);
  for (const std::string& part : split_taps(inside)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) refuse_tap(text);
    const std::string axis = part.substr(0, equals);
    const std::optional<TapRange> range = tap_range(part.substr(equals + 1));
    if (!range) refuse_tap(text);
    if (axis == "queries") {
      request.selection.queries = *range;
    } else if (axis == "keys") {
      request.selection.keys = *range;
    } else if (axis == "heads" && range->end && *range->end <= kMostHeads) {
      for (std::int64_t head = range->begin; head < *range->end; ++head)
        request.selection.heads.push_back(head);
    } else {
      refuse_tap(text);
    }
  }
  return request;
}

}  // namespace heed::inspect
