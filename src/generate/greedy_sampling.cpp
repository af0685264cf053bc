// Greedy search and sampling: every sequence is independent until its end token or the maximum length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "generate/processors.h"
#include "generate/strategies.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/loss.h"
#include "heed/ops/softmax.h"
#include "heed/threads.h"

namespace heed::generate {
namespace {

struct RowSequence : Sequence {
  std::int64_t index = 0;  ///< among the requested sequences of the prompt
  double score = 0, log_probability = 0;
};

/// Returns -log p of the token chosen in each row of the scores [rows, V]; 0 if there is none.
std::vector<float> losses_of(const Tensor& scores, const std::vector<std::optional<std::int64_t>>& tokens) {
  const CrossEntropyOptions options{.reduction = Reduction::none};
  std::vector<std::int64_t> targets;
  for (const auto& token : tokens) targets.push_back(token.value_or(options.ignore_index));
  return cross_entropy(scores, Tensor::from(targets, {scores.size(0)}), options).to_vector<float>();
}

class RowSearch final : public Search {
 public:
  explicit RowSearch(SearchTask given) : Search(std::move(given)) {
    for (std::int64_t i = 0; i < options().num_return_sequences; ++i) {
      going_.push_back({{task().prompt}, i});
    }
    results_.resize(going_.size());
  }

  std::vector<Sequence*> sequences() override {
    std::vector<Sequence*> all;
    for (RowSequence& sequence : going_) all.push_back(&sequence);
    return all;
  }
  void choose(const Tensor& logits) override;
  void advance(AttentionRecorder& recorder, std::vector<GeneratedToken>& tokens) override;
  void end(const AttentionRecorder& recorder) override {
    for (const RowSequence& sequence : going_) finish(sequence, FinishReason::stop, recorder);
    going_.clear();
  }
  std::vector<Hypothesis> results(const AttentionRecorder&) override { return std::move(results_); }

 private:
  /// The logits of the sequences' rows, [sequences, V].
  Tensor own_rows(const Tensor& logits, bool processed) const;
  /// Returns the best or a sampled token, or nullopt if every token is excluded.
  std::optional<std::int64_t> token_after(const RowSequence& sequence, std::span<const float> scores) const;
  GeneratedToken token_of(std::size_t i) const;
  void finish(const RowSequence& sequence, FinishReason reason, const AttentionRecorder& recorder) {
    results_[static_cast<std::size_t>(sequence.index)] = {
        new_ids(sequence),        sequence.score, sequence.score,
        sequence.log_probability, reason,         recorder.collect(sequence.path)};
  }

  std::vector<RowSequence> going_;
  std::vector<Hypothesis> results_;
  // What choose() found for each sequence.
  std::vector<std::optional<std::int64_t>> chosen_;
  std::vector<float> losses_, cold_;  // of the chosen tokens; `cold_` at temperature 1
  Tensor log_probs_;                  // of the model, [sequences, V], where tokens are told
};

std::optional<std::int64_t> RowSearch::token_after(const RowSequence& sequence,
                                                   std::span<const float> scores) const {
  const RandomStream stream = random(std::ssize(sequence.ids), sequence.index);
  std::optional<std::int64_t> best;
  float best_score = -std::numeric_limits<float>::infinity();
  for (std::size_t token = 0; token < scores.size(); ++token) {
    if (!(scores[token] > -std::numeric_limits<float>::infinity())) {
      require_number(scores[token]);
      continue;
    }
    const float score = options().do_sample ? scores[token] + gumbel(stream, token) : scores[token];
    if (!best || score > best_score) {
      best = static_cast<std::int64_t>(token);
      best_score = score;
    }
  }
  return best;
}

Tensor RowSearch::own_rows(const Tensor& logits, bool processed) const {
  const std::int64_t vocabulary = logits.size(1), count = std::ssize(going_);
  Tensor scores = Tensor::empty({count, vocabulary});
  parallel_for(count, kScoresPerThread / vocabulary + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowSequence& sequence = going_[static_cast<std::size_t>(i)];
      const float* source = logits.data<float>() + sequence.row * vocabulary;
      const std::span row(scores.data<float>() + i * vocabulary, static_cast<std::size_t>(vocabulary));
      std::copy(source, source + vocabulary, row.begin());
      if (processed && processors().active(std::ssize(sequence.ids))) processors().apply(sequence.ids, row);
    }
  });
  return scores;
}

void RowSearch::choose(const Tensor& logits) {
  const auto vocabulary = static_cast<std::size_t>(logits.size(1));
  const Tensor scores = own_rows(logits, true);
  chosen_.clear();
  for (std::size_t i = 0; i < going_.size(); ++i)
    chosen_.push_back(token_after(going_[i], {scores.data<float>() + i * vocabulary, vocabulary}));
  losses_ = losses_of(scores, chosen_);
  const bool warped = options().do_sample && options().temperature != 1;
  cold_ = warped ? losses_of(scores * options().temperature, chosen_) : losses_;
  if (task().top) log_probs_ = log_softmax(own_rows(logits, false), 1);
}

GeneratedToken RowSearch::token_of(std::size_t i) const {
  const auto vocabulary = static_cast<std::size_t>(log_probs_.size(1));
  const std::span row(log_probs_.data<float>() + i * vocabulary, vocabulary);
  const std::int64_t token = *chosen_[i];
  return {task().request, going_[i].index, token, row[static_cast<std::size_t>(token)],
          best_tokens(row, *task().top)};
}

void RowSearch::advance(AttentionRecorder& recorder, std::vector<GeneratedToken>& tokens) {
  last_read_ = going_.front();
  std::vector<RowSequence> going;
  for (std::size_t i = 0; i < going_.size(); ++i) {
    RowSequence& sequence = going_[i];
    const std::optional<std::int64_t> token = chosen_[i];
    std::optional<FinishReason> ended;
    if (!token) ended = FinishReason::stop;
    if (token) {
      if (task().top) tokens.push_back(token_of(i));
      sequence.ids.push_back(*token);
      sequence.score -= static_cast<double>(losses_[i]);
      sequence.log_probability -= static_cast<double>(cold_[i]);
      sequence.path = recorder.extend(sequence.path, sequence.row);
      const auto& on_token = task().hooks.on_token;
      const bool stopped =
          on_token && !on_token(task().row, static_cast<std::size_t>(sequence.index), *token);
      ended = stopped ? FinishReason::stop : finished(sequence.ids);
    }
    if (ended) {
      finish(sequence, *ended, recorder);
    } else {
      going.push_back(std::move(sequence));
    }
  }
  going_ = std::move(going);
}

}  // namespace

std::unique_ptr<Search> make_row_search(SearchTask task) {
  return std::make_unique<RowSearch>(std::move(task));
}

}  // namespace heed::generate
