// A language model without weights, for testing searches: the scores of the next token are a fixed random
// function of the source and of all tokens so far. The decoding keeps only a hash per row, as a real one
// keeps its cache, so a wrong reordering gives wrong scores at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/generate/search.h"
#include "heed/models/model.h"
#include "heed/random.h"

namespace heed::testing {

struct HashModel {
  std::int64_t vocab_size = 6;
  std::uint64_t seed = 0;
  float spread = 2;

  std::uint64_t start(std::int64_t source) const { return mix(seed + 1, static_cast<std::uint64_t>(source)); }
  static std::uint64_t mix(std::uint64_t state, std::uint64_t token) {
    const auto words = philox4x32(state, token, 77);
    return static_cast<std::uint64_t>(words[0]) << 32 | words[1];
  }
  std::uint64_t state_after(std::int64_t source, const std::vector<std::int64_t>& tokens) const {
    std::uint64_t state = start(source);
    for (const std::int64_t token : tokens) state = mix(state, static_cast<std::uint64_t>(token));
    return state;
  }
  float logit(std::uint64_t state, std::int64_t token) const {
    return spread * RandomStream{state, 1}.normal(static_cast<std::uint64_t>(token));
  }
  std::vector<float> log_probs(std::uint64_t state) const {
    double sum = 0;
    for (std::int64_t v = 0; v < vocab_size; ++v) sum += std::exp(static_cast<double>(logit(state, v)));
    std::vector<float> result;
    for (std::int64_t v = 0; v < vocab_size; ++v) {
      result.push_back(static_cast<float>(static_cast<double>(logit(state, v)) - std::log(sum)));
    }
    return result;
  }
  /// Returns the attention of head h to key k, for a query whose prefix has the hash `state`.
  static float attention(std::uint64_t state, std::int64_t h, std::int64_t k) {
    return RandomStream{state, 2}.uniform(static_cast<std::uint64_t>(h * 100 + k));
  }
};

class HashDecoding final : public Decoding {
 public:
  static constexpr std::int64_t kHeads = 2;
  static constexpr std::int64_t kKeys = 3;

  HashDecoding(const HashModel& model, const std::vector<std::int64_t>& sources) : model_(model) {
    for (const std::int64_t source : sources) states_.push_back(model.start(source));
  }

  /// Taps: `fixed.weights` has kKeys keys; `growing.weights` has one more in every step.
  Tensor step(const Tensor& ids, Context& context) override {
    const std::int64_t steps = ids.size(1);
    Tensor fixed = Tensor::zeros({rows(), kHeads, steps, kKeys});
    Tensor growing = Tensor::zeros({rows(), kHeads, steps, length_ + steps});
    for (std::int64_t r = 0; r < rows(); ++r) {
      std::uint64_t& state = states_[static_cast<std::size_t>(r)];
      for (std::int64_t t = 0; t < steps; ++t) {
        state = HashModel::mix(state, static_cast<std::uint64_t>(ids.data<std::int64_t>()[r * steps + t]));
        for (std::int64_t h = 0; h < kHeads; ++h) {
          fill(fixed, state, r, h, t, kKeys);
          fill(growing, state, r, h, t, length_ + t + 1);
        }
      }
    }
    length_ += steps;
    rows_fed += rows();
    if (context.wants("fixed.weights")) context.taps->emit("fixed.weights", fixed);
    if (context.wants("growing.weights")) context.taps->emit("growing.weights", growing);
    Tensor logits = Tensor::empty({rows(), model_.vocab_size});
    for (std::int64_t i = 0; i < logits.numel(); ++i) {
      logits.data<float>()[i] =
          model_.logit(states_[static_cast<std::size_t>(i / model_.vocab_size)], i % model_.vocab_size);
    }
    return logits;
  }

  void reorder(std::span<const std::int64_t> rows) override {
    std::vector<std::uint64_t> states;
    for (const std::int64_t row : rows) states.push_back(states_.at(static_cast<std::size_t>(row)));
    states_ = std::move(states);
  }

  std::int64_t rows() const override { return static_cast<std::int64_t>(states_.size()); }
  std::int64_t length() const override { return length_; }
  std::int64_t rows_fed = 0;

 private:
  static void fill(Tensor& values, std::uint64_t state, std::int64_t r, std::int64_t h, std::int64_t t,
                   std::int64_t keys) {
    float* out = values.data<float>() + ((r * kHeads + h) * values.size(2) + t) * values.size(3);
    for (std::int64_t k = 0; k < keys; ++k) out[k] = HashModel::attention(state, h, k);
  }

  HashModel model_;
  std::vector<std::uint64_t> states_;
  std::int64_t length_ = 0;
};

/// The start token of `run`.
inline constexpr std::int64_t kStart = 1;

/// Searches from the start token, one row for each source.
inline std::vector<std::vector<Hypothesis>> run(const HashModel& model,
                                                const std::vector<std::int64_t>& sources,
                                                const GenerationOptions& options,
                                                const SearchHooks& hooks = {}) {
  HashDecoding decoding(model, sources);
  const Tensor prompt = Tensor::full({static_cast<std::int64_t>(sources.size()), 1}, kStart, DType::i64);
  Context context;
  return search(decoding, prompt, options, hooks, context);
}

}  // namespace heed::testing
