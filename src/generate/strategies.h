// The two search strategies: one sequence per row (greedy or sampled), and beams.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "generate/attention_recorder.h"
#include "generate/processors.h"
#include "heed/generate/search.h"
#include "heed/random.h"

namespace heed::generate {

/// The input of a strategy. The options have been checked.
struct SearchState {
  Decoding& decoding;
  std::span<const std::vector<std::int64_t>> prompts;  ///< one or more tokens each
  const GenerationOptions& options;
  const std::vector<Processors>& processors;     ///< one per prompt, with its lengths
  const std::vector<std::uint64_t>& sample_ids;  ///< one per prompt
  const SearchHooks& hooks;
  AttentionRecorder& recorder;

  std::int64_t sources() const { return static_cast<std::int64_t>(prompts.size()); }
  const std::vector<std::int64_t>& prompt_of(std::int64_t source) const {
    return prompts[static_cast<std::size_t>(source)];
  }
  std::int64_t prompt_length(std::int64_t source) const { return processors_of(source).prompt_length(); }
  std::int64_t max_length(std::int64_t source) const { return processors_of(source).max_length(); }
  const Processors& processors_of(std::int64_t source) const {
    return processors[static_cast<std::size_t>(source)];
  }
  /// Returns why the sequence `ids`, which include the prompt, ends with its last token; nullopt if it goes
  /// on.
  std::optional<FinishReason> finished(std::int64_t source, std::span<const std::int64_t> ids) const;
  /// Returns the random numbers for the token after a sequence of this length. `sequence_index` distinguishes
  /// sequences of the same prompt.
  RandomStream random(std::int64_t source, std::int64_t length, std::int64_t sequence_index) const;
  /// Replaces row i of the decoding by its former row rows[i].
  void reorder(const std::vector<std::int64_t>& rows) const;
  /// Feeds the prompts. Throws Error if they or the options contain tokens without a score.
  Tensor begin() const;
  /// Feeds one token per row.
  Tensor feed(const std::vector<std::int64_t>& tokens) const;
};

/// The minimum number of scores to scan that is worth waking a thread.
constexpr std::int64_t kScoresPerThread = 32768;

/// Returns the maximum length of a sequence, including the prompt. Throws Error if no new token fits.
std::int64_t longest_sequence(std::int64_t prompt_length, const GenerationOptions& options,
                              std::optional<std::int64_t> longest);

/// Returns Gumbel noise. The argmax of scores with such noise is a sample from their softmax, and the k
/// largest are a sample of k without replacement (Kool et al., "Stochastic beams and where to find them").
float gumbel(const RandomStream& random, std::uint64_t index);

/// Throws Error if the score is not a number.
void require_number(float score);

std::vector<std::vector<Hypothesis>> search_rows(const SearchState& state);
std::vector<std::vector<Hypothesis>> search_beams(const SearchState& state);

}  // namespace heed::generate
