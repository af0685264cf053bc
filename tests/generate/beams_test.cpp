// Beam search against all sequences, and against a plain implementation of its rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "generate/hash_decoding.h"
#include "generate/processors.h"
#include "heed/generate/search.h"

namespace heed {
namespace {

using testing::HashModel;
using testing::kStart;
using testing::run;

struct Scored {
  std::vector<std::int64_t> ids;
  double score;
  double beam_score;
};

/// Returns all finished sequences, sorted by score / length^penalty.
std::vector<Scored> enumerate(const HashModel& model, std::int64_t source, const GenerationOptions& options) {
  std::vector<Scored> all;
  std::vector<std::int64_t> ids;
  const std::function<void(std::uint64_t, double)> grow = [&](std::uint64_t state, double score) {
    const auto log_probs = model.log_probs(state);
    for (std::int64_t v = 0; v < model.vocab_size; ++v) {
      const double longer = score + static_cast<double>(log_probs[static_cast<std::size_t>(v)]);
      ids.push_back(v);
      const auto length = static_cast<double>(ids.size());
      if (v == options.eos_token_id.at(0) ||
          static_cast<std::int64_t>(ids.size()) == *options.max_new_tokens) {
        all.push_back({ids, longer, longer / std::pow(length, options.length_penalty)});
      } else {
        grow(HashModel::mix(state, static_cast<std::uint64_t>(v)), longer);
      }
      ids.pop_back();
    }
  };
  grow(model.state_after(source, {kStart}), 0);
  std::stable_sort(all.begin(), all.end(),
                   [](const Scored& a, const Scored& b) { return a.beam_score > b.beam_score; });
  return all;
}

TEST(BeamSearch, FindsTheBestOfAllSequencesWhenBeamsAreEnough) {
  for (const double penalty : {0.0, 1.0, 2.0, -1.0}) {
    const HashModel model{4, 11};
    const GenerationOptions options{.max_new_tokens = 4,
                                    .num_beams = 256,
                                    .num_return_sequences = 20,
                                    .length_penalty = penalty,
                                    .eos_token_id = {0}};
    const auto found = run(model, {0, 1}, options);
    for (std::int64_t source = 0; source < 2; ++source) {
      const auto all = enumerate(model, source, options);
      const auto& results = found[static_cast<std::size_t>(source)];
      ASSERT_EQ(results.size(), 20u);
      for (std::size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].ids, all[i].ids)
            << "penalty " << penalty << " source " << source << " place " << i;
        EXPECT_NEAR(results[i].score, all[i].score, 1e-4);
        EXPECT_NEAR(results[i].beam_score, all[i].beam_score, 1e-4);
      }
    }
  }
}

/// Beam search for one source in its usual form: a fixed number of slots, empty ones scored -1e9, everything
/// computed from the whole sequences and fully sorted.
std::vector<Scored> plain_beam_search(const HashModel& model, std::int64_t source,
                                      const GenerationOptions& options) {
  struct Slot {
    std::vector<std::int64_t> ids;
    float score;
    float sum = 0;
    bool finished = false;
  };
  const auto beams = static_cast<std::size_t>(options.num_beams);
  const std::size_t keep = std::max<std::size_t>(2, 1 + options.eos_token_id.size()) * beams;
  const std::int64_t max_new = *options.max_new_tokens;
  const auto by_score = [](const Slot& a, const Slot& b) { return a.score > b.score; };
  std::vector<Slot> running(beams, Slot{{}, -1e9f}), finished(beams, Slot{{}, -1e9f});
  running[0].score = 0;
  const generate::Processors processors(options, 1, max_new + 1);
  for (std::int64_t length = 0; length < max_new; ++length) {
    std::vector<Slot> candidates;
    for (const Slot& slot : running) {
      std::vector<std::int64_t> sequence{kStart};
      sequence.insert(sequence.end(), slot.ids.begin(), slot.ids.end());
      auto log_probs = model.log_probs(model.state_after(source, sequence));
      processors.apply(sequence, log_probs);
      for (std::int64_t v = 0; v < model.vocab_size; ++v) {
        Slot next = slot;
        next.ids.push_back(v);
        next.score += log_probs[static_cast<std::size_t>(v)];
        candidates.push_back(next);
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(), by_score);
    candidates.resize(keep);
    std::vector<Slot> next, merged = finished;
    for (std::size_t i = 0; i < keep; ++i) {
      Slot& c = candidates[i];
      c.sum = c.score;
      c.finished = length + 1 == max_new ||
                   std::count(options.eos_token_id.begin(), options.eos_token_id.end(), c.ids.back());
      if (!c.finished) next.push_back(c);
      if (c.finished && i < beams) {
        c.score /= static_cast<float>(std::pow(static_cast<double>(length + 1), options.length_penalty));
        merged.push_back(c);
      }
    }
    const bool full = std::all_of(finished.begin(), finished.end(), [](const Slot& s) { return s.finished; });
    if (!(full && options.early_stopping == EarlyStopping::yes)) {
      std::stable_sort(merged.begin(), merged.end(), by_score);
      merged.resize(beams);
      finished = merged;
    }
    if (next.empty()) break;
    next.resize(std::min(next.size(), beams), next.front());
    running = next;
    const double best_length = options.early_stopping == EarlyStopping::never && options.length_penalty > 0
                                   ? static_cast<double>(max_new)
                                   : static_cast<double>(length + 1);
    const float best = running[0].score / static_cast<float>(std::pow(best_length, options.length_penalty));
    const bool all_finished =
        std::all_of(finished.begin(), finished.end(), [](const Slot& s) { return s.finished; });
    if (all_finished && (options.early_stopping == EarlyStopping::yes || !(best > finished.back().score)))
      break;
  }
  std::vector<Scored> results;
  for (const Slot& slot : finished) results.push_back({slot.ids, slot.sum, slot.score});
  return results;
}

TEST(BeamSearch, EqualsThePlainOneInEverySetting) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const HashModel model{12, seed, 1.0f + 0.25f * static_cast<float>(seed)};
    for (const double penalty : {0.0, 1.0, 2.0, -1.0}) {
      for (const EarlyStopping stopping : {EarlyStopping::no, EarlyStopping::yes, EarlyStopping::never}) {
        GenerationOptions options{.max_new_tokens = 9,
                                  .num_beams = 3,
                                  .num_return_sequences = 3,
                                  .length_penalty = penalty,
                                  .early_stopping = stopping,
                                  .eos_token_id = {0}};
        if (seed % 2 == 1) options.eos_token_id = {0, 1, 7};
        if (seed % 3 == 1) options.no_repeat_ngram_size = 2;
        if (seed % 4 == 1) options.repetition_penalty = 1.5;
        if (seed % 4 == 2) options.min_length = 5;
        if (seed % 5 == 3) options.forced_eos_token_id = {0};
        const std::vector<std::int64_t> sources{4, 0, 9, 2};
        const auto found = run(model, sources, options);
        for (std::size_t i = 0; i < sources.size(); ++i) {
          const auto expected = plain_beam_search(model, sources[i], options);
          ASSERT_EQ(found[i].size(), expected.size());
          for (std::size_t k = 0; k < expected.size(); ++k, ++compared) {
            ASSERT_EQ(found[i][k].ids, expected[k].ids)
                << "seed " << seed << " penalty " << penalty << " source " << i;
            EXPECT_NEAR(found[i][k].score, expected[k].score, 1e-4);
            EXPECT_NEAR(found[i][k].beam_score, expected[k].beam_score, 1e-4);
          }
        }
      }
    }
  }
  EXPECT_EQ(compared, 12 * 4 * 3 * 4 * 3);
}

}  // namespace
}  // namespace heed
