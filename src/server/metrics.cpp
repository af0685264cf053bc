// Names, bounds and the text.
#include "server/metrics.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/json.h"
#include "heed/version.h"

namespace heed::server {
namespace {

constexpr std::size_t kBounds = 15;
constexpr double kSeconds[kBounds] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                      0.5,   1,      2.5,   5,    10,    30,   120};
constexpr double kAmounts[kBounds] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

struct Described {
  const char *name, *help;
  const double* bounds = nullptr;
};
constexpr Described kCounters[] = {
    {"heed_prompt_tokens_total", "Tokens of prompts and of texts that were read"},
    {"heed_generated_tokens_total", "Tokens that were generated"},
    {"heed_cached_tokens_total", "Tokens of prompts that were remembered and not read again"}};
constexpr Described kGauges[] = {{"heed_requests_running", "Requests that are computed"},
                                 {"heed_requests_waiting", "Requests that wait to be computed"}};
constexpr Described kHistograms[] = {
    {"heed_queue_seconds", "Time that requests waited before they were computed", kSeconds},
    {"heed_prefill_seconds", "Time from the start of a generation to its first token", kSeconds},
    {"heed_token_seconds", "Time from one token of a generation to the next", kSeconds},
    {"heed_batch_texts", "Texts of a batch of an encoder", kAmounts},
    {"heed_batch_tokens", "Tokens of a batch of an encoder, with padding", kAmounts}};

void describe(std::string& text, const char* name, const char* help, const char* type) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

const std::time_t started = std::time(nullptr);

// As Prometheus' own clients name them.
void describe_process(std::string& text) {
  const auto gauge = [&](const char* name, const char* help, auto value, const char* type = "gauge") {
    describe(text, name, help, type);
    text += fmt::format("{} {}\n", name, value);
  };
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  gauge("process_cpu_seconds_total", "Time of processors, of all threads",
        seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime), "counter");
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  gauge("process_resident_memory_bytes", "Memory that is used", resident * page);
  gauge("process_virtual_memory_bytes", "Memory that is mapped", pages * page);
  std::error_code ignored;
  const std::filesystem::directory_iterator files("/proc/self/fd", ignored);
  gauge("process_open_fds", "Files and connections that are open",
        std::distance(std::filesystem::begin(files), std::filesystem::end(files)));
  gauge("process_start_time_seconds", "When the process started, in seconds since 1970", started);
}

}  // namespace

void Metrics::put(Buckets& buckets, const double* bounds, double value) {
  const auto at = static_cast<std::size_t>(std::lower_bound(bounds, bounds + kBounds, value) - bounds);
  ++buckets.counts[at];
  ++buckets.count;
  buckets.sum += value;
}

void Metrics::count_request(const std::string& route, const std::string& model, int status, double seconds) {
  std::string labels = fmt::format("route=\"{}\"", route);
  if (!model.empty()) labels += fmt::format(",model={}", json_quoted(model));
  const std::lock_guard lock(mutex_);
  ++requests_[{labels, status}];
  put(request_seconds_[labels], kSeconds, seconds);
}

void Metrics::count_key(const std::string& name, int status, std::int64_t tokens) {
  const std::string quoted = json_quoted(name);
  const std::lock_guard lock(mutex_);
  ++key_requests_[{quoted, status}];
  key_tokens_[quoted] += tokens;
}

void Metrics::add(Counter counter, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  counters_[static_cast<std::size_t>(counter)] += amount;
}

void Metrics::change(Gauge gauge, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  gauges_[static_cast<std::size_t>(gauge)] += amount;
}

void Metrics::observe(Histogram histogram, double value) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(histogram);
  put(histograms_[at], kHistograms[at].bounds, value);
}

std::int64_t Metrics::value(Gauge gauge) const {
  const std::lock_guard lock(mutex_);
  return gauges_[static_cast<std::size_t>(gauge)];
}

void Metrics::write(std::string& text, const std::string& name, const std::string& labels,
                    const Buckets& buckets, const double* bounds) {
  const std::string more = labels.empty() ? "" : labels + ",", all = labels.empty() ? "" : "{" + labels + "}";
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBounds; ++i) {
    below += buckets.counts[i];
    text += fmt::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, more, bounds[i], below);
  }
  text += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n{}_sum{} {}\n{}_count{} {}\n", name, more,
                      buckets.count, name, all, buckets.sum, name, all, buckets.count);
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  describe(text, "heed_build_info", "The version of heed", "gauge");
  text += fmt::format("heed_build_info{{version=\"{}\"}} 1\n", version());
  describe(text, "heed_requests_total", "Requests that were answered", "counter");
  for (const auto& [key, count] : requests_)
    text += fmt::format("heed_requests_total{{{},status=\"{}\"}} {}\n", key.first, key.second, count);
  describe(text, "heed_request_seconds", "Time from a request to the end of its answer", "histogram");
  for (const auto& [labels, buckets] : request_seconds_)
    write(text, "heed_request_seconds", labels, buckets, kSeconds);
  describe(text, "heed_key_requests_total", "Requests that were answered, by the name of their key",
           "counter");
  for (const auto& [key, count] : key_requests_)
    text += fmt::format("heed_key_requests_total{{key={},status=\"{}\"}} {}\n", key.first, key.second, count);
  describe(text, "heed_key_tokens_total", "Their tokens, of prompts and answers", "counter");
  for (const auto& [key, count] : key_tokens_)
    text += fmt::format("heed_key_tokens_total{{key={}}} {}\n", key, count);
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    describe(text, kCounters[i].name, kCounters[i].help, "counter");
    text += fmt::format("{} {}\n", kCounters[i].name, counters_[i]);
  }
  for (std::size_t i = 0; i < gauges_.size(); ++i) {
    describe(text, kGauges[i].name, kGauges[i].help, "gauge");
    text += fmt::format("{} {}\n", kGauges[i].name, gauges_[i]);
  }
  for (std::size_t i = 0; i < histograms_.size(); ++i) {
    describe(text, kHistograms[i].name, kHistograms[i].help, "histogram");
    write(text, kHistograms[i].name, "", histograms_[i], kHistograms[i].bounds);
  }
  describe_process(text);
  return text;
}

}  // namespace heed::server
