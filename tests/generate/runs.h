// Runs of a fixture's generation.json: what transformers found with given options.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "heed/generate/options.h"
#include "heed/generate/search.h"
#include "reference/json.h"

namespace heed {

/// The model's options, overridden by those of a run.
inline GenerationOptions options_of_run(const std::filesystem::path& fixture, const nlohmann::json& run) {
  nlohmann::json merged = read_json(fixture / "generation_config.json");
  merged.update(run.at("options"));
  const TemporaryFolder folder;
  spill(folder / "generation_config.json", merged.dump());
  return load_generation_options(folder.path());
}

/// Expects the ids of the run, and its scores if it has some.
inline void expect_found(const std::vector<std::vector<Hypothesis>>& found, const nlohmann::json& run) {
  std::vector<Hypothesis> all;
  for (const auto& hypotheses : found) all.insert(all.end(), hypotheses.begin(), hypotheses.end());
  const auto expected = run.at("new_tokens").get<std::vector<std::vector<std::int64_t>>>();
  ASSERT_EQ(all.size(), expected.size()) << run.at("name");
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].ids, expected[i]) << run.at("name") << " sequence " << i;
    if (!run.contains("sequences_scores")) continue;
    const double score = run["sequences_scores"][i];
    EXPECT_NEAR(all[i].beam_score, score, 1e-4 * std::max(1.0, std::abs(score)))
        << run.at("name") << " sequence " << i;
  }
}

}  // namespace heed
