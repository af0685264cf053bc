// Random requests of a Generation, and the comparison of results to the bit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "heed/generate/generation.h"

namespace heed {

inline void expect_same(const std::vector<Hypothesis>& found, const std::vector<Hypothesis>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids);
    EXPECT_EQ(found[i].score, expected[i].score);
    EXPECT_EQ(found[i].beam_score, expected[i].beam_score);
    EXPECT_EQ(found[i].log_probability, expected[i].log_probability);
    EXPECT_EQ(found[i].finish_reason, expected[i].finish_reason);
    ASSERT_EQ(found[i].captured.size(), expected[i].captured.size());
    for (const auto& [name, value] : expected[i].captured)
      EXPECT_EQ(found[i].captured.at(name).to_vector<float>(), value.to_vector<float>());
  }
}

/// Steps until nothing is left to do, and returns the results of all that finish.
inline std::map<std::uint64_t, std::vector<Hypothesis>> run_to_the_end(Generation& generation) {
  std::map<std::uint64_t, std::vector<Hypothesis>> results;
  while (!generation.idle()) {
    for (const std::uint64_t request : generation.step().finished)
      results[request] = generation.remove(request);
  }
  return results;
}

class RandomChoices {
 public:
  explicit RandomChoices(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 protected:
  /// Sets what requests of all models have; at most `most` new tokens.
  GenerationOptions& choose(GenerationRequest& request, std::uint64_t most) {
    request.sample_id = below(5);
    request.top = static_cast<std::int64_t>(below(3));
    GenerationOptions& options = request.options;
    options.max_new_tokens = 1 + static_cast<std::int64_t>(below(most));
    options.do_sample = one_in(2);
    options.seed = below(3);
    return options;
  }

  std::mt19937_64 random_;
};

}  // namespace heed
