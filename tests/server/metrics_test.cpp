// The text form of Prometheus.
#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heed::server_test {
namespace {

using testing::HasSubstr;

TEST(Metrics, CountsAndSpreads) {
  server::Metrics metrics;
  metrics.count_request("/embed", "", 200, 0.02);
  metrics.count_request("/embed", "", 200, 3);
  metrics.count_request("/embed", "", 400, 500);
  metrics.count_request("/embed", "mini\"lm", 200, 1);
  metrics.count_key("alice", 200, 30);
  metrics.count_key("alice", 200, 12);
  metrics.count_key("alice", 429, 0);
  metrics.add(server::Counter::prompt_tokens, 7);
  metrics.change(server::Gauge::running, 2);
  metrics.change(server::Gauge::running, -1);
  metrics.observe(server::Histogram::batch_texts, 4);
  const std::string text = metrics.text();
  for (const char* line :
       {"# TYPE heed_requests_total counter\nheed_requests_total{route=\"/embed\",status=\"200\"} 2\n",
        "heed_requests_total{route=\"/embed\",status=\"400\"} 1\n",
        "heed_request_seconds_bucket{route=\"/embed\",le=\"0.01\"} 0\n",
        "heed_request_seconds_bucket{route=\"/embed\",le=\"0.025\"} 1\n",
        "heed_request_seconds_bucket{route=\"/embed\",le=\"120\"} 2\n",
        "heed_request_seconds_bucket{route=\"/embed\",le=\"+Inf\"} 3\n",
        "heed_request_seconds_sum{route=\"/embed\"} 503.02\n",
        "heed_request_seconds_count{route=\"/embed\"} 3\n",
        "heed_prompt_tokens_total 7\n",
        "heed_requests_total{route=\"/embed\",model=\"mini\\\"lm\",status=\"200\"} 1\n",
        "heed_key_requests_total{key=\"alice\",status=\"200\"} 2\n",
        "heed_key_requests_total{key=\"alice\",status=\"429\"} 1\n",
        "heed_key_tokens_total{key=\"alice\"} 42\n",
        "# TYPE process_cpu_seconds_total counter\n",
        "# TYPE process_resident_memory_bytes gauge\n",
        "# TYPE process_open_fds gauge\n",
        "# TYPE process_start_time_seconds gauge\n",
        "heed_requests_running 1\n",
        "heed_batch_texts_bucket{le=\"2\"} 0\n",
        "heed_batch_texts_bucket{le=\"4\"} 1\n",
        "heed_batch_texts_sum 4\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace heed::server_test
