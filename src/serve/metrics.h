// Counts and times of the server, in the text form of Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace heed::serve {

enum class Count : std::uint8_t { prompt_tokens, generated_tokens, cached_tokens, size };
enum class Level : std::uint8_t { running, waiting, size };
enum class Spread : std::uint8_t {
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
  void count_request(const std::string& route, int status, double seconds);
  void add(Count count, std::int64_t amount);
  void change(Level level, std::int64_t amount);
  void observe(Spread spread, double value);
  std::int64_t level(Level level) const;
  std::string text() const;

 private:
  struct Histogram {
    std::array<std::uint64_t, 16> buckets{};  // the last: above all bounds
    std::uint64_t count = 0;
    double sum = 0;
  };
  static void put(Histogram& histogram, const double* bounds, double value);
  static void write(std::string& text, const std::string& name, const std::string& labels,
                    const Histogram& histogram, const double* bounds);

  mutable std::mutex mutex_;  // of what follows
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
  std::map<std::string, Histogram> request_seconds_;
  std::array<std::int64_t, static_cast<std::size_t>(Count::size)> counts_{};
  std::array<std::int64_t, static_cast<std::size_t>(Level::size)> levels_{};
  std::array<Histogram, static_cast<std::size_t>(Spread::size)> spreads_{};
};

}  // namespace heed::serve
