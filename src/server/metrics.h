// Counts and times of the server, in the text form of Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace heed::server {

enum class Counter : std::uint8_t { prompt_tokens, generated_tokens, cached_tokens, size };
enum class Gauge : std::uint8_t { running, waiting, size };
enum class Histogram : std::uint8_t {
  queue_seconds,
  prefill_seconds,
  token_seconds,
  batch_texts,
  batch_tokens,
  size
};

/// Threads: any.
class Metrics {
 public:
  /// `model`: that was asked; empty: none.
  void count_request(const std::string& route, const std::string& model, int status, double seconds);
  /// A request with a key of that name.
  void count_key(const std::string& name, int status, std::int64_t tokens);
  void add(Counter counter, std::int64_t amount);
  void change(Gauge gauge, std::int64_t amount);
  void observe(Histogram histogram, double value);
  std::int64_t value(Gauge gauge) const;
  std::string text() const;

 private:
  struct Buckets {
    std::array<std::uint64_t, 16> counts{};  // the last: above all bounds
    std::uint64_t count = 0;
    double sum = 0;
  };
  static void put(Buckets& buckets, const double* bounds, double value);
  static void write(std::string& text, const std::string& name, const std::string& labels,
                    const Buckets& buckets, const double* bounds);

  mutable std::mutex mutex_;                                           // of what follows
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;      // by labels, and status
  std::map<std::string, Buckets> request_seconds_;                     // by labels
  std::map<std::pair<std::string, int>, std::uint64_t> key_requests_;  // by quoted name, and status
  std::map<std::string, std::int64_t> key_tokens_;
  std::array<std::int64_t, static_cast<std::size_t>(Counter::size)> counters_{};
  std::array<std::int64_t, static_cast<std::size_t>(Gauge::size)> gauges_{};
  std::array<Buckets, static_cast<std::size_t>(Histogram::size)> histograms_{};
};

}  // namespace heed::server
