// Beam search with the rules of Hugging Face transformers 5. For each prompt, each step
//   1. adds the log-probabilities of every next token to the running beams' scores and takes the best max(2,
//      1 + number of end tokens) * num_beams candidates, so that at least num_beams of them do not end;
//   2. adds those among the first num_beams that end to the finished hypotheses, ranked by score /
//      length^length_penalty, of which num_beams are kept;
//   3. continues with the best num_beams candidates that do not end.
// A search is done when it has num_beams finished hypotheses and early_stopping allows it to stop, or at the
// maximum length. Equal scores are ranked by beam, then by token.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "generate/strategies.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed::generate {

namespace {

struct Beam : Sequence {
  float score = 0;  ///< sum of log-probabilities
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

class BeamSearch final : public Search {
 public:
  explicit BeamSearch(SearchTask given) : Search(std::move(given)) {
    running_.emplace_back();
    running_.front().ids = task().prompt;
  }

  std::vector<Sequence*> sequences() override {
    std::vector<Sequence*> all;
    for (Beam& beam : running_) all.push_back(&beam);
    return all;
  }
  /// Ranks the continuations.
  void choose(const Tensor& logits) override;
  void advance(AttentionRecorder& recorder, std::vector<GeneratedToken>&) override;
  void end(const AttentionRecorder&) override {
    for (Beam& beam : running_) add_finished(std::move(beam));
    running_.clear();
  }
  std::vector<Hypothesis> results(const AttentionRecorder& recorder) override;

 private:
  float penalized(float score, std::int64_t length) const {
    const auto tokens = static_cast<double>(std::max<std::int64_t>(length, 1));
    return score / static_cast<float>(std::pow(tokens, options().length_penalty));
  }
  std::int64_t new_tokens() const { return std::ssize(running_.front().ids) - prompt_length(); }
  std::optional<FinishReason> reason_of(const Candidate& candidate) const {
    std::vector<std::int64_t> ids = running_[static_cast<std::size_t>(candidate.beam)].ids;
    ids.push_back(candidate.token);
    return finished(ids);
  }
  Beam extend(const Candidate& candidate, AttentionRecorder& recorder,
              FinishReason reason = FinishReason::stop) const;
  void add_finished(Beam beam);
  bool can_improve() const;

  std::vector<Beam> running_;          // best first, all of the same length
  std::vector<Finished> finished_;     // best first
  std::vector<Candidate> candidates_;  // what choose() found, best first
};

void BeamSearch::choose(const Tensor& logits) {
  const std::int64_t vocabulary = logits.size(1);
  const auto wanted = static_cast<std::size_t>(
      std::max<std::int64_t>(2, 1 + std::ssize(options().eos_token_id)) * options().num_beams);
  std::vector<Candidate> heap;  // the worst of the kept candidates is at the front
  for (std::size_t b = 0; b < running_.size(); ++b) {
    const Beam& beam = running_[b];
    const Tensor log_probs = log_softmax(slice(logits, 0, beam.row, beam.row + 1), 1);
    const std::span scores(log_probs.data<float>(), static_cast<std::size_t>(vocabulary));
    const std::int64_t length = std::ssize(beam.ids);
    if (processors().active(length)) processors().apply(beam.ids, scores);
    const RandomStream stream = random(length, static_cast<std::int64_t>(b));
    for (std::size_t token = 0; token < scores.size(); ++token) {
      const float score = scores[token] + beam.score;
      if (!(score > kNever)) {
        require_number(score);
        continue;
      }
      const float key = options().do_sample ? score + gumbel(stream, token) : score;
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
  candidates_ = std::move(heap);
}

Beam BeamSearch::extend(const Candidate& candidate, AttentionRecorder& recorder, FinishReason reason) const {
  Beam beam = running_[static_cast<std::size_t>(candidate.beam)];
  beam.ids.push_back(candidate.token);
  beam.path = recorder.extend(beam.path, beam.row);
  beam.score = candidate.score;
  beam.reason = reason;
  return beam;
}

void BeamSearch::add_finished(Beam beam) {
  const float score = penalized(beam.score, std::ssize(beam.ids) - prompt_length());
  const auto place = std::find_if(finished_.begin(), finished_.end(),
                                  [score](const Finished& other) { return other.beam_score < score; });
  finished_.insert(place, {std::move(beam), score});
  if (std::ssize(finished_) > options().num_beams) finished_.pop_back();
}

bool BeamSearch::can_improve() const {
  if (std::ssize(finished_) < options().num_beams) return true;
  if (options().early_stopping == EarlyStopping::yes) return false;
  const bool longest = options().early_stopping == EarlyStopping::never && options().length_penalty > 0;
  const std::int64_t length = longest ? max_length() - prompt_length() : new_tokens();
  return penalized(running_.front().score, length) > finished_.back().beam_score;
}

void BeamSearch::advance(AttentionRecorder& recorder, std::vector<GeneratedToken>&) {
  last_read_ = running_.front();
  const auto beams = static_cast<std::size_t>(options().num_beams);
  std::vector<const Candidate*> going;
  std::vector<Beam> ended;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const std::optional<FinishReason> reason = reason_of(candidates_[i]);
    if (!reason) {
      going.push_back(&candidates_[i]);
    } else if (i < beams) {
      ended.push_back(extend(candidates_[i], recorder, *reason));
    }
  }
  if (options().do_sample) {  // sampled in random order, then ranked by score
    std::stable_sort(going.begin(), going.end(),
                     [](const Candidate* a, const Candidate* b) { return a->score > b->score; });
  }
  if (going.size() > beams) going.resize(beams);
  std::vector<Beam> next;
  for (const Candidate* candidate : going) next.push_back(extend(*candidate, recorder));
  // If every token is excluded, the beams end as they are.
  if (candidates_.empty() && finished_.empty()) ended = running_;
  for (Beam& beam : ended) add_finished(std::move(beam));
  running_ = std::move(next);
  if (!running_.empty() && !can_improve()) running_.clear();
}

std::vector<Hypothesis> BeamSearch::results(const AttentionRecorder& recorder) {
  std::vector<Hypothesis> results;
  const auto count = std::min(finished_.size(), static_cast<std::size_t>(options().num_return_sequences));
  for (std::size_t i = 0; i < count; ++i) {
    const Beam& beam = finished_[i].beam;
    results.push_back({new_ids(beam), beam.score, finished_[i].beam_score, beam.score, beam.reason,
                       recorder.collect(beam.path)});
  }
  return results;
}

}  // namespace

std::unique_ptr<Search> make_beam_search(SearchTask task) {
  return std::make_unique<BeamSearch>(std::move(task));
}

}  // namespace heed::generate
