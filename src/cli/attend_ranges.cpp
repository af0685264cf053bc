// Cuts what heed attend records and shows to ranges of queries and keys.
#include "cli/attend_ranges.h"

#include <fmt/format.h>

#include "cli/tap_options.h"
#include "heed/ops/shape.h"

namespace heed::cli {
namespace {

using Bounds = std::array<std::int64_t, 2>;

Bounds bounds_of(const TapRange& range, std::size_t size) {
  return {range.begin, range.end.value_or(static_cast<std::int64_t>(size))};
}

void check_range(const char* option, const std::string& given, const TapRange& range, const std::string& kind,
                 std::size_t size) {
  const auto [begin, end] = bounds_of(range, size);
  if (begin < end && end <= static_cast<std::int64_t>(size)) return;
  throw UsageError(fmt::format("{}: expected positions of the {} of {} attention, counted from 0, got {}",
                               option, size, kind, given));
}

template <class T>
void cut(std::vector<T>& values, const Bounds& bounds) {
  values = std::vector<T>(values.begin() + bounds[0], values.begin() + bounds[1]);
}

void cut_map(AttentionMap& map, const Bounds& queries, const Bounds& keys) {
  std::vector<float> weights;
  for (std::int64_t query = queries[0]; query < queries[1]; ++query) {
    const auto row = map.weights.begin() + query * map.keys;
    weights.insert(weights.end(), row + keys[0], row + keys[1]);
  }
  map.weights = std::move(weights);
  map.queries = queries[1] - queries[0];
  map.keys = keys[1] - keys[0];
}

}  // namespace

TapSelection AttendRanges::selection() const {
  TapSelection chosen;
  if (!queries.empty()) chosen.queries = parse_positions(queries, "--queries");
  if (!keys.empty()) chosen.keys = parse_positions(keys, "--keys");
  return chosen;
}

std::string AttendRanges::text() const {
  return (queries.empty() ? "" : "queries " + queries) + (queries.empty() || keys.empty() ? "" : ", ") +
         (keys.empty() ? "" : "keys " + keys);
}

void check_ranges(const AttendRanges& ranges, const AttendInput& input,
                  const std::vector<AttentionKind>& kinds) {
  const TapSelection chosen = ranges.selection();
  for (const AttentionKind& kind : kinds) {
    const auto tokens = input.tokens.find(kind.name);
    if (tokens == input.tokens.end()) continue;  // of images and sounds, the model knows
    check_range("--queries", ranges.queries, chosen.queries, kind.name, tokens->second.queries.size());
    check_range("--keys", ranges.keys, chosen.keys, kind.name, tokens->second.keys.size());
  }
}

AttentionRecord cut_record(const AttendRanges& ranges, const AttentionRecord& record) {
  const TapSelection chosen = ranges.selection();
  AttentionRecord result = record;
  for (RecordedLayer& layer : result.layers) {
    const auto cut_axis = [](Tensor& x, int axis, const TapRange& range, std::int64_t size) {
      if (!x.defined()) return;
      const auto [begin, end] = bounds_of(range, static_cast<std::size_t>(size));
      x = slice(x, axis, begin, end).contiguous();
    };
    for (Tensor* all : {&layer.weights, &layer.gradient, &layer.q})
      cut_axis(*all, 1, chosen.queries, layer.all_queries);
    for (Tensor* all : {&layer.weights, &layer.gradient}) cut_axis(*all, 2, chosen.keys, layer.all_keys);
    for (Tensor* all : {&layer.value_norms, &layer.k, &layer.v})
      cut_axis(*all, 1, chosen.keys, layer.all_keys);
  }
  return result;
}

void cut_picture(const AttendRanges& ranges, AttentionPicture& picture) {
  const TapSelection chosen = ranges.selection();
  for (auto& [kind, tokens] : picture.tokens) {
    const std::size_t all_queries = tokens.queries.size(), all_keys = tokens.keys.size();
    const Bounds queries = bounds_of(chosen.queries, all_queries), keys = bounds_of(chosen.keys, all_keys);
    for (AttentionMap& map : picture.maps) {
      if (map.kind == kind && map.measure == "rollout") cut_map(map, queries, keys);
    }
    if (const auto steps = picture.candidates.find(kind); steps != picture.candidates.end())
      cut(steps->second, queries);
    cut(tokens.queries, queries);
    cut(tokens.keys, keys);
    tokens.query_range = queries;
    tokens.key_range = keys;
  }
  if (!ranges.keys.empty()) picture.image = {};
  picture.title = "[" + ranges.text() + "] " + picture.title;
}

}  // namespace heed::cli
