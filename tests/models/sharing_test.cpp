// One model that many threads ask at once: each gets the numbers that it would get alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
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

using Answer = std::function<std::vector<float>(const Model& model, std::size_t request)>;

std::vector<float> forward(const Model& model, std::size_t request) {
  const NoGradients inference;
  Context context;
  const TensorMap inputs{{"input_ids", question(request, model.vocab_size())}};
  return model.forward(inputs, {}, context).at("logits").to_vector<float>();
}

// Feeds the question, then four times the token that comes out first.
std::vector<float> decode(Decoding& decoding, const Tensor& prompt) {
  const NoGradients inference;
  Context context;
  Tensor ids = prompt;
  std::vector<float> logits;
  for (int step = 0; step < 5; ++step) {
    logits = decoding.step(ids, context).to_vector<float>();
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ids = Tensor::from(std::vector<std::int64_t>{best}, {1, 1});
  }
  return logits;
}

std::vector<float> continuation(const Model& model, std::size_t request) {
  const auto decoding = dynamic_cast<const DecoderModel&>(model).decode(1);
  return decode(*decoding, question(request, model.vocab_size()));
}

std::vector<float> translation(const Model& model, std::size_t request) {
  const auto& translator = dynamic_cast<const EncoderDecoderModel&>(model);
  const NoGradients inference;
  Context context;
  const Tensor source = question(request, model.vocab_size());
  const auto decoding = translator.decode({source, Tensor::full(source.shape(), 1, DType::i64)}, context);
  return decode(*decoding,
                Tensor::full({1, 1}, static_cast<double>(translator.decoder_start_id()), DType::i64));
}

void expect_the_same_for_all(const char* folder, DType dtype, const Answer& answer) {
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
  EXPECT_EQ(together, alone) << folder;
}

TEST(Sharing, ManyRequestsAtOnce) {
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      expect_the_same_for_all("decoders/gpt2", dtype, forward);
      expect_the_same_for_all("decoders/llama", dtype, continuation);   // rotary tables are made at first use
      expect_the_same_for_all("decoders/gemma3", dtype, continuation);  // two tables, windows
      expect_the_same_for_all("decoders/mixtral", dtype, continuation);
      expect_the_same_for_all("encoders/bert-mlm", dtype, forward);
      expect_the_same_for_all("encoders/deberta-v3-mlm", dtype, forward);
      expect_the_same_for_all("marian", dtype, translation);
      expect_the_same_for_all("t5", dtype, translation);
      expect_the_same_for_all("recurrent/additive-gru", dtype, translation);
      expect_the_same_for_all("recurrent/dot-gru", dtype, translation);
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace heed
