// Beam search with the rules of Hugging Face transformers 5. For each source, each step
//   1. adds the log-probabilities of every next token to the running beams' scores and takes the best max(2,
//      1 + number of end tokens) * num_beams candidates, so that at least num_beams of them do not end;
//   2. adds those among the first num_beams that end to the finished hypotheses, ranked by score /
//      length^length_penalty, of which num_beams are kept;
//   3. continues with the best num_beams candidates that do not end.
// A source is done when it has num_beams finished hypotheses and early_stopping allows it to stop, or at the
// maximum length. Equal scores are ranked by beam, then by token. Sources do not influence each other, so
// finished ones are removed from the batch.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "generate/strategies.h"
#include "heed/ops/softmax.h"
#include "heed/threads.h"

namespace heed::generate {

namespace {

struct Beam {
  std::vector<std::int64_t> ids;
  float score = 0;       ///< sum of log-probabilities
  std::int64_t row = 0;  ///< row of the decoding
  std::int64_t path = kRoot;
  FinishReason reason = FinishReason::stop;
};

struct Finished {
  Beam beam;
  float beam_score;
};

struct Candidate {
  float key;  ///< ranks candidates: the score, plus noise when sampling
  float score;
  std::int64_t beam;
  std::int64_t token;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.key != b.key) return a.key > b.key;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

/// The search for one source.
class BeamSearch {
 public:
  BeamSearch(const SearchState& state, std::int64_t source) : state_(state), source_(source) {
    running_.push_back({state.prompt_of(source), 0, source});
  }

  /// Ranks the continuations. The processors modify `log_probs` [R, V].
  std::vector<Candidate> rank(const Tensor& log_probs) const;
  /// Advances by one token. Returns false when the search is done.
  bool advance(const std::vector<Candidate>& candidates);
  std::vector<Beam>& running() { return running_; }
  std::int64_t source() const { return source_; }
  std::vector<Hypothesis> results() const;

 private:
  float penalized(float score, std::int64_t length) const {
    const auto tokens = static_cast<double>(std::max<std::int64_t>(length, 1));
    return score / static_cast<float>(std::pow(tokens, state_.options.length_penalty));
  }
  std::int64_t new_tokens() const {
    return static_cast<std::int64_t>(running_.front().ids.size()) - state_.prompt_length(source_);
  }
  std::optional<FinishReason> finished(const Candidate& candidate) const {
    std::vector<std::int64_t> ids = running_[static_cast<std::size_t>(candidate.beam)].ids;
    ids.push_back(candidate.token);
    return state_.finished(source_, ids);
  }
  Beam extend(const Candidate& candidate, FinishReason reason = FinishReason::stop) const;
  void add_finished(Beam beam);
  bool can_improve() const;

  const SearchState& state_;
  std::int64_t source_;
  std::vector<Beam> running_;       // best first, all of the same length
  std::vector<Finished> finished_;  // best first
};

std::vector<Candidate> BeamSearch::rank(const Tensor& log_probs) const {
  const std::int64_t vocabulary = log_probs.size(1);
  const auto& options = state_.options;
  const auto wanted = static_cast<std::size_t>(
      std::max<std::int64_t>(2, 1 + static_cast<std::int64_t>(options.eos_token_id.size())) *
      options.num_beams);
  std::vector<Candidate> heap;  // the worst of the kept candidates is at the front
  for (std::size_t b = 0; b < running_.size(); ++b) {
    const Beam& beam = running_[b];
    const std::span scores(log_probs.data<float>() + beam.row * vocabulary,
                           static_cast<std::size_t>(vocabulary));
    const auto length = static_cast<std::int64_t>(beam.ids.size());
    const Processors& processors = state_.processors_of(source_);
    if (processors.active(length)) processors.apply(beam.ids, scores);
    const RandomStream random = state_.random(source_, length, static_cast<std::int64_t>(b));
    for (std::size_t token = 0; token < scores.size(); ++token) {
      const float score = scores[token] + beam.score;
      if (!(score > kNever)) {
        require_number(score);
        continue;
      }
      const float key = options.do_sample ? score + gumbel(random, token) : score;
      if (heap.size() == wanted && key < heap.front().key) continue;
      const Candidate candidate{key, score, static_cast<std::int64_t>(b), static_cast<std::int64_t>(token)};
      if (heap.size() == wanted) {
        if (!better(candidate, heap.front())) continue;
        std::pop_heap(heap.begin(), heap.end(), better);
        heap.pop_back();
      }
      heap.push_back(candidate);
      std::push_heap(heap.begin(), heap.end(), better);
    }
  }
  std::sort_heap(heap.begin(), heap.end(), better);
  return heap;
}

Beam BeamSearch::extend(const Candidate& candidate, FinishReason reason) const {
  const Beam& parent = running_[static_cast<std::size_t>(candidate.beam)];
  Beam beam{parent.ids, candidate.score, parent.row, state_.recorder.extend(parent.path, parent.row), reason};
  beam.ids.push_back(candidate.token);
  return beam;
}

void BeamSearch::add_finished(Beam beam) {
  const float score =
      penalized(beam.score, static_cast<std::int64_t>(beam.ids.size()) - state_.prompt_length(source_));
  const auto place = std::find_if(finished_.begin(), finished_.end(),
                                  [score](const Finished& other) { return other.beam_score < score; });
  finished_.insert(place, {std::move(beam), score});
  if (static_cast<std::int64_t>(finished_.size()) > state_.options.num_beams) finished_.pop_back();
}

bool BeamSearch::can_improve() const {
  const auto& options = state_.options;
  if (static_cast<std::int64_t>(finished_.size()) < options.num_beams) return true;
  if (options.early_stopping == EarlyStopping::yes) return false;
  const bool longest = options.early_stopping == EarlyStopping::never && options.length_penalty > 0;
  const std::int64_t length =
      longest ? state_.max_length(source_) - state_.prompt_length(source_) : new_tokens();
  return penalized(running_.front().score, length) > finished_.back().beam_score;
}

bool BeamSearch::advance(const std::vector<Candidate>& candidates) {
  const auto beams = static_cast<std::size_t>(state_.options.num_beams);
  std::vector<const Candidate*> going;
  std::vector<Beam> ended;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::optional<FinishReason> reason = finished(candidates[i]);
    if (!reason) {
      going.push_back(&candidates[i]);
    } else if (i < beams) {
      ended.push_back(extend(candidates[i], *reason));
    }
  }
  if (state_.options.do_sample) {  // sampled in random order, then ranked by score
    std::stable_sort(going.begin(), going.end(),
                     [](const Candidate* a, const Candidate* b) { return a->score > b->score; });
  }
  if (going.size() > beams) going.resize(beams);
  std::vector<Beam> next;
  for (const Candidate* candidate : going) next.push_back(extend(*candidate));
  // If every token is excluded, the beams end as they are.
  if (candidates.empty() && finished_.empty()) ended = running_;
  for (Beam& beam : ended) add_finished(std::move(beam));
  running_ = std::move(next);
  return !running_.empty() && can_improve();
}

std::vector<Hypothesis> BeamSearch::results() const {
  std::vector<Hypothesis> results;
  const auto count =
      std::min(finished_.size(), static_cast<std::size_t>(state_.options.num_return_sequences));
  for (std::size_t i = 0; i < count; ++i) {
    const Beam& beam = finished_[i].beam;
    results.push_back({{beam.ids.begin() + state_.prompt_length(source_), beam.ids.end()},
                       beam.score,
                       finished_[i].beam_score,
                       beam.score,
                       beam.reason,
                       state_.recorder.collect(beam.path)});
  }
  return results;
}

/// Returns the minimum number of sources per thread that is worth waking a thread.
std::int64_t sources_per_thread(const SearchState& state, std::int64_t vocabulary) {
  return kScoresPerThread / (state.options.num_beams * vocabulary) + 1;
}

/// Selects the decoding's rows that continue and assigns beams to them. Returns the tokens to feed.
std::vector<std::int64_t> rearrange(const SearchState& state, std::vector<BeamSearch>& searches) {
  std::vector<std::int64_t> rows, tokens;
  for (BeamSearch& search : searches) {
    for (Beam& beam : search.running()) {
      rows.push_back(beam.row);
      tokens.push_back(beam.ids.back());
      beam.row = static_cast<std::int64_t>(rows.size()) - 1;
    }
  }
  state.reorder(rows);
  return tokens;
}

}  // namespace

std::vector<std::vector<Hypothesis>> search_beams(const SearchState& state) {
  std::vector<std::vector<Hypothesis>> results(state.prompts.size());
  std::vector<BeamSearch> searches;
  for (std::int64_t source = 0; source < state.sources(); ++source) searches.emplace_back(state, source);
  if (searches.empty()) return results;
  Tensor logits = state.begin();
  for (;;) {
    const Tensor log_probs = log_softmax(logits, 1);
    std::vector<std::vector<Candidate>> candidates(searches.size());
    parallel_for(static_cast<std::int64_t>(searches.size()), sources_per_thread(state, logits.size(1)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
                     candidates[i] = searches[i].rank(log_probs);
                   }
                 });
    std::vector<BeamSearch> going;
    for (std::size_t i = 0; i < searches.size(); ++i) {
      if (searches[i].advance(candidates[i])) {
        going.push_back(std::move(searches[i]));
      } else {
        results[static_cast<std::size_t>(searches[i].source())] = searches[i].results();
      }
    }
    if (going.empty()) return results;
    searches = std::move(going);
    logits = state.feed(rearrange(state, searches));
  }
}

}  // namespace heed::generate
