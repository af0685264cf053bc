#include "generate/timestamp_rules.h"

#include <algorithm>
#include <cmath>

#include "generate/processors.h"

namespace heed::generate {
namespace {

// Whether the timestamps together are likelier than the likeliest other token.
bool prefers_timestamps(std::span<const float> others, std::span<const float> timestamps) {
  const float other = *std::max_element(others.begin(), others.end());
  const float most = *std::max_element(timestamps.begin(), timestamps.end());
  if (most == kNever) return false;
  double sum = 0;
  for (const float score : timestamps) sum += std::exp(static_cast<double>(score) - most);
  return most + std::log(sum) > other;
}

}  // namespace

void TimestampRules::apply(std::span<const std::int64_t> ids, std::span<float> scores) const {
  const auto vocabulary = static_cast<std::int64_t>(scores.size());
  const std::int64_t times = first();
  if (times >= vocabulary) return;
  const auto ban = [&](std::int64_t from, std::int64_t to) {
    const auto begin = std::clamp<std::int64_t>(from, 0, vocabulary);
    const auto stop = std::clamp<std::int64_t>(to, begin, vocabulary);
    std::fill(scores.begin() + begin, scores.begin() + stop, kNever);
  };
  ban(no_timestamps, times);
  const auto is_time = [&](std::int64_t id) { return id >= times; };
  const std::size_t count = ids.size();
  const bool last_is_time = count >= 1 && is_time(ids[count - 1]);
  const bool before_is_time = count < 2 || is_time(ids[count - 2]);
  if (last_is_time && before_is_time) ban(times, vocabulary);
  if (last_is_time && !before_is_time) ban(0, end);
  const auto latest = std::find_if(ids.rbegin(), ids.rend(), is_time);
  if (latest != ids.rend()) ban(times, last_is_time && !before_is_time ? *latest : *latest + 1);
  if (ids.empty()) {
    ban(0, times);
    if (most_initial) ban(times + *most_initial + 1, vocabulary);
  }
  const auto split = static_cast<std::size_t>(times);
  if (prefers_timestamps(scores.first(split), scores.subspan(split))) ban(0, times);
}

}  // namespace heed::generate
