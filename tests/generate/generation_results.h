// Results of a Generation, and their comparison to the bit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
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

}  // namespace heed
