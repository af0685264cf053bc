// Names, bounds and the text.
#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "heed/version.h"

namespace heed::serve {
namespace {

constexpr std::size_t kBounds = 15;
constexpr double kSeconds[kBounds] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                      0.5,   1,      2.5,   5,    10,    30,   120};
constexpr double kAmounts[kBounds] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

struct Described {
  const char *name, *help;
  const double* bounds = nullptr;
};
constexpr Described kCounts[] = {
    {"heed_prompt_tokens_total", "Tokens of prompts and of texts that were read"},
    {"heed_generated_tokens_total", "Tokens that were generated"},
    {"heed_cached_tokens_total", "Tokens of prompts that were remembered and not read again"}};
constexpr Described kLevels[] = {{"heed_requests_running", "Requests that are computed"},
                                 {"heed_requests_waiting", "Requests that wait to be computed"}};
constexpr Described kSpreads[] = {
    {"heed_queue_seconds", "Time that requests waited before they were computed", kSeconds},
    {"heed_prefill_seconds", "Time from the start of a generation to its first token", kSeconds},
    {"heed_token_seconds", "Time from one token of a generation to the next", kSeconds},
    {"heed_batch_texts", "Texts of a batch of an encoder", kAmounts},
    {"heed_batch_tokens", "Tokens of a batch of an encoder, with padding", kAmounts}};

void describe(std::string& text, const char* name, const char* help, const char* type) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

void Metrics::put(Histogram& histogram, const double* bounds, double value) {
  const auto at = static_cast<std::size_t>(std::lower_bound(bounds, bounds + kBounds, value) - bounds);
  ++histogram.buckets[at];
  ++histogram.count;
  histogram.sum += value;
}

void Metrics::count_request(const std::string& route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{route, status}];
  put(request_seconds_[route], kSeconds, seconds);
}

void Metrics::add(Count count, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  counts_[static_cast<std::size_t>(count)] += amount;
}

void Metrics::change(Level level, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  levels_[static_cast<std::size_t>(level)] += amount;
}

void Metrics::observe(Spread spread, double value) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(spread);
  put(spreads_[at], kSpreads[at].bounds, value);
}

std::int64_t Metrics::level(Level level) const {
  const std::lock_guard lock(mutex_);
  return levels_[static_cast<std::size_t>(level)];
}

void Metrics::write(std::string& text, const std::string& name, const std::string& labels,
                    const Histogram& histogram, const double* bounds) {
  const std::string more = labels.empty() ? "" : labels + ",", all = labels.empty() ? "" : "{" + labels + "}";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBounds; ++i) {
    below += histogram.buckets[i];
    text += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, more, bounds[i], below);
  }
  text += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n{}_sum{} {}\n{}_count{} {}\n", name, more,
                      histogram.count, name, all, histogram.sum, name, all, histogram.count);
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  describe(text, "heed_build_info", "The version of heed", "gauge");
  text += fmt::format("heed_build_info{{version=\"{}\"}} 1\n", version());
  describe(text, "heed_requests_total", "Requests that were answered", "counter");
  for (const auto& [key, count] : requests_)
    text +=
        fmt::format("heed_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  describe(text, "heed_request_seconds", "Time from a request to the end of its answer", "histogram");
  for (const auto& [route, histogram] : request_seconds_)
    write(text, "heed_request_seconds", fmt::format("route=\"{}\"", route), histogram, kSeconds);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    describe(text, kCounts[i].name, kCounts[i].help, "counter");
    text += fmt::format("{} {}\n", kCounts[i].name, counts_[i]);
  }
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    describe(text, kLevels[i].name, kLevels[i].help, "gauge");
    text += fmt::format("{} {}\n", kLevels[i].name, levels_[i]);
  }
  for (std::size_t i = 0; i < spreads_.size(); ++i) {
    describe(text, kSpreads[i].name, kSpreads[i].help, "histogram");
    write(text, kSpreads[i].name, "", spreads_[i], kSpreads[i].bounds);
  }
  return text;
}

}  // namespace heed::serve
