// Greedy search and sampling: every row is independent until its end token or the maximum length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "generate/strategies.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/threads.h"

namespace heed::generate {

namespace {

struct Sequence {
  std::int64_t source;  ///< row of the prompt
  std::int64_t index;   ///< among the requested sequences of the prompt
  std::vector<std::int64_t> ids;
  double score = 0, log_probability = 0;
  std::int64_t path = kRoot;
};

/// Returns the best or a sampled token, or nullopt if every token is excluded.
std::optional<std::int64_t> choose(const SearchState& state, const Sequence& row,
                                   std::span<const float> scores) {
  const RandomStream random = state.random(row.source, static_cast<std::int64_t>(row.ids.size()), row.index);
  std::optional<std::int64_t> best;
  float best_score = -std::numeric_limits<float>::infinity();
  for (std::size_t token = 0; token < scores.size(); ++token) {
    if (!(scores[token] > -std::numeric_limits<float>::infinity())) {
      require_number(scores[token]);
      continue;
    }
    const float score = state.options.do_sample ? scores[token] + gumbel(random, token) : scores[token];
    if (!best || score > best_score) {
      best = static_cast<std::int64_t>(token);
      best_score = score;
    }
  }
  return best;
}

std::vector<std::optional<std::int64_t>> choose(const SearchState& state, const std::vector<Sequence>& rows,
                                                const Tensor& scores) {
  const auto vocabulary = static_cast<std::size_t>(scores.size(1));
  std::vector<std::optional<std::int64_t>> tokens;
  for (std::size_t i = 0; i < rows.size(); ++i)
    tokens.push_back(choose(state, rows[i], {scores.data<float>() + i * vocabulary, vocabulary}));
  return tokens;
}

/// Returns -log p of the token chosen in each row of the scores [rows, V]; 0 if there is none.
std::vector<float> losses_of(const Tensor& scores, const std::vector<std::optional<std::int64_t>>& tokens) {
  const CrossEntropyOptions options{.reduction = Reduction::none};
  std::vector<std::int64_t> targets;
  for (const auto& token : tokens) targets.push_back(token.value_or(options.ignore_index));
  return cross_entropy(scores, Tensor::from(targets, {scores.size(0)}), options).to_vector<float>();
}

/// Returns the processed scores [rows, V]; those of row i come from row from[i] of the logits.
Tensor process(const SearchState& state, const std::vector<Sequence>& rows,
               const std::vector<std::int64_t>& from, const Tensor& logits) {
  const std::int64_t vocabulary = logits.size(1);
  const auto count = static_cast<std::int64_t>(rows.size());
  Tensor scores = Tensor::empty({count, vocabulary});
  parallel_for(count, kScoresPerThread / vocabulary + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* source = logits.data<float>() + from[static_cast<std::size_t>(i)] * vocabulary;
      const std::span row(scores.data<float>() + i * vocabulary, static_cast<std::size_t>(vocabulary));
      std::copy(source, source + vocabulary, row.begin());
      const Sequence& going = rows[static_cast<std::size_t>(i)];
      const Processors& processors = state.processors_of(going.source);
      if (processors.active(static_cast<std::int64_t>(going.ids.size()))) processors.apply(going.ids, row);
    }
  });
  return scores;
}

std::vector<Sequence> start(const SearchState& state, std::vector<std::int64_t>& from) {
  std::vector<Sequence> rows;
  const std::int64_t count = state.options.num_return_sequences;
  for (std::int64_t i = 0; i < state.sources() * count; ++i) {
    rows.push_back({i / count, i % count, state.prompt_of(i / count)});
    from.push_back(i / count);
  }
  return rows;
}

Hypothesis finish(const SearchState& state, const Sequence& row, FinishReason reason) {
  return {{row.ids.begin() + state.prompt_length(row.source), row.ids.end()},
          row.score,
          row.score,
          row.log_probability,
          reason,
          state.recorder.collect(row.path)};
}

}  // namespace

std::vector<std::vector<Hypothesis>> search_rows(const SearchState& state) {
  std::vector<std::vector<Hypothesis>> results(state.prompts.size());
  for (auto& result : results) result.resize(static_cast<std::size_t>(state.options.num_return_sequences));
  std::vector<std::int64_t> from;  // rows of the decoding before reordering
  std::vector<Sequence> rows = start(state, from);
  if (rows.empty()) return results;
  Tensor logits = state.begin();
  for (;;) {
    const Tensor scores = process(state, rows, from, logits);
    const std::vector<std::optional<std::int64_t>> chosen = choose(state, rows, scores);
    const std::vector<float> losses = losses_of(scores, chosen);
    const bool warped = state.options.do_sample && state.options.temperature != 1;
    const std::vector<float> cold = warped ? losses_of(scores * state.options.temperature, chosen) : losses;
    std::vector<Sequence> going;
    std::vector<std::int64_t> going_from, tokens;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Sequence& row = rows[i];
      const std::optional<std::int64_t> token = chosen[i];
      std::optional<FinishReason> ended;
      if (!token) ended = FinishReason::stop;
      if (token) {
        row.ids.push_back(*token);
        row.score -= static_cast<double>(losses[i]);
        row.log_probability -= static_cast<double>(cold[i]);
        row.path = state.recorder.extend(row.path, from[i]);
        const bool stopped =
            state.hooks.on_token && !state.hooks.on_token(static_cast<std::size_t>(row.source),
                                                          static_cast<std::size_t>(row.index), *token);
        ended = stopped ? FinishReason::stop : state.finished(row.source, row.ids);
      }
      if (ended) {
        results[static_cast<std::size_t>(row.source)][static_cast<std::size_t>(row.index)] =
            finish(state, row, *ended);
      } else {
        tokens.push_back(*token);
        going_from.push_back(from[i]);
        going.push_back(std::move(row));
      }
    }
    if (going.empty()) return results;
    rows = std::move(going);
    state.reorder(going_from);
    logits = state.feed(tokens);
    from.resize(rows.size());
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int64_t>(i);
  }
}

}  // namespace heed::generate
