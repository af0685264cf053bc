// One model that many threads ask at once: each gets the numbers that it would get alone.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/threads.h"

namespace heed {
namespace {

constexpr std::size_t kRequests = 8;

Tensor question(std::size_t request, std::int64_t vocabulary) {
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < 5 + 3 * request; ++i) {
    ids.push_back(1 + static_cast<std::int64_t>(7 * i + 11 * request) % (vocabulary - 1));
  }
  const auto length = static_cast<std::int64_t>(ids.size());
  return Tensor::from(ids, {1, length});
}

std::vector<float> answer(const Model& model, std::size_t request) {
  const NoGradients inference;
  Context context;
  const TensorMap inputs{{"input_ids", question(request, model.vocab_size())}};
  return model.forward(inputs, {}, context).at("logits").to_vector<float>();
}

void expect_the_same_for_all(const char* folder, DType dtype) {
  const auto path = std::filesystem::path(HEED_FIXTURES) / folder;
  std::vector<std::vector<float>> alone;
  {
    const auto model = load_model(path, dtype);
    for (std::size_t request = 0; request < kRequests; ++request) alone.push_back(answer(*model, request));
  }
  const auto model = load_model(path, dtype);  // whose weights are not packed yet
  std::vector<std::vector<float>> together(kRequests);
  std::vector<std::thread> clients;
  for (std::size_t request = 0; request < kRequests; ++request) {
    clients.emplace_back([&, request] {
      for (int round = 0; round < 3; ++round) together[request] = answer(*model, request);
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(together, alone);
}

TEST(Sharing, ManyRequestsAtOnce) {
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      expect_the_same_for_all("decoders/gpt2", dtype);
      expect_the_same_for_all("encoders/bert-mlm", dtype);
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace heed
