// The changes of scores, in the order that the header gives.
#include "generate/processors.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "heed/error.h"

namespace heed::generate {
namespace {

// A file of the model may name an end token outside the vocabulary, which is never generated anyway.
void ban(std::span<const std::int64_t> tokens, std::span<float> scores) {
  for (const std::int64_t token : tokens) {
    if (static_cast<std::size_t>(token) < scores.size()) scores[static_cast<std::size_t>(token)] = kNever;
  }
}

void only(std::span<const std::int64_t> tokens, std::span<float> scores) {
  std::fill(scores.begin(), scores.end(), kNever);
  for (const std::int64_t token : tokens) scores[static_cast<std::size_t>(token)] = 0;
}

void make_finite(std::span<float> scores) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (float& score : scores) score = std::isnan(score) ? 0 : std::clamp(score, -kLargest, kLargest);
}

void penalize_repetition(std::span<const std::int64_t> sequence, float penalty, std::span<float> scores) {
  std::vector<std::int64_t> seen(sequence.begin(), sequence.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const std::int64_t token : seen) {
    float& score = scores[static_cast<std::size_t>(token)];
    score = score < 0 ? score * penalty : score / penalty;
  }
}

// Bans the tokens that would complete an n-gram of `text` after `sequence`.
void ban_ngrams_of(std::span<const std::int64_t> text, std::span<const std::int64_t> sequence, std::size_t n,
                   std::span<float> scores) {
  if (sequence.size() + 1 < n) return;
  const auto prefix = sequence.last(n - 1);
  for (std::size_t begin = 0; begin + n <= text.size(); ++begin) {
    if (std::equal(prefix.begin(), prefix.end(), text.begin() + static_cast<std::ptrdiff_t>(begin))) {
      scores[static_cast<std::size_t>(text[begin + n - 1])] = kNever;
    }
  }
}

void add_sequence_biases(std::span<const std::int64_t> sequence, const std::vector<SequenceBias>& biases,
                         std::span<float> scores) {
  std::map<std::int64_t, float> sums;
  for (const SequenceBias& bias : biases) {  // of several biases for the same tokens, the last counts
    if (bias.ids.size() == 1) sums[bias.ids.front()] = static_cast<float>(bias.bias);
  }
  for (const SequenceBias& bias : biases) {
    const auto& ids = bias.ids;
    // transformers requires the length of the whole sequence, although its last token is yet to come.
    if (ids.size() == 1 || ids.size() > sequence.size()) continue;
    const auto prefix = sequence.last(ids.size() - 1);
    if (!std::equal(prefix.begin(), prefix.end(), ids.begin())) continue;
    const bool repeated = std::any_of(&bias + 1, biases.data() + biases.size(),
                                      [&](const SequenceBias& later) { return later.ids == ids; });
    if (!repeated) sums[ids.back()] += static_cast<float>(bias.bias);
  }
  for (const auto& entry : sums) scores[static_cast<std::size_t>(entry.first)] += entry.second;
}

void ban_bad_words(std::span<const std::int64_t> sequence, const GenerationOptions& options,
                   std::span<float> scores) {
  for (const auto& word : options.bad_words_ids) {
    const bool is_end =
        word.size() == 1 && std::find(options.eos_token_id.begin(), options.eos_token_id.end(), word[0]) !=
                                options.eos_token_id.end();
    // transformers requires the length of the whole word, although its last token is yet to come.
    if (is_end || (word.size() > 1 && word.size() > sequence.size())) continue;
    const auto prefix = sequence.last(word.size() - 1);
    if (std::equal(prefix.begin(), prefix.end(), word.begin()))
      scores[static_cast<std::size_t>(word.back())] = kNever;
  }
}

/// The tokens that are not excluded, best first, in a tie by id. Sorted at most once, when first needed:
/// dropping the worst tokens keeps the order.
class Ranking {
 public:
  explicit Ranking(std::span<const float> scores) : scores_(scores) {}
  const std::vector<std::size_t>& order() {
    if (!order_.empty()) return order_;
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      if (scores_[i] > kNever) order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return scores_[a] > scores_[b]; });
    return order_;
  }

 private:
  std::span<const float> scores_;
  std::vector<std::size_t> order_;
};

float kth_largest(std::size_t k, std::span<const float> scores) {
  std::vector<float> sorted(scores.begin(), scores.end());
  const auto kth = sorted.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted.begin(), kth, sorted.end(), std::greater<>());
  return *kth;
}

double sum_of_exponentials(std::span<const float> scores, float maximum) {
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - maximum);
  return sum;
}

void keep_top_k(std::size_t k, std::span<float> scores) {
  if (k >= scores.size()) return;
  const float least = kth_largest(k, scores);
  for (float& score : scores) {
    if (score < least) score = kNever;
  }
}

void keep_top_p(double p, std::size_t keep, Ranking& ranking, std::span<float> scores) {
  const auto& order = ranking.order();
  if (order.empty()) return;
  const float maximum = scores[order[0]];
  const double total = sum_of_exponentials(scores, maximum);
  // Drops the least likely tokens as long as their total probability is at most 1 - p.
  double mass = 0;
  for (std::size_t i = order.size(); i > keep; --i) {
    mass += std::exp(static_cast<double>(scores[order[i - 1]]) - maximum) / total;
    if (mass > 1 - p) break;
    scores[order[i - 1]] = kNever;
  }
}

// Keeps the best of the 100 best tokens, as long as their total contribution to the entropy is at most `part`
// of it.
void keep_top_h(double part, Ranking& ranking, std::span<float> scores) {
  constexpr std::size_t kConsidered = 100;
  const auto& order = ranking.order();
  if (order.empty()) return;
  const std::size_t count = std::min(kConsidered, order.size());
  const float maximum = scores[order[0]];
  double total = 0, entropy = 0;
  for (std::size_t i = 0; i < count; ++i) total += std::exp(static_cast<double>(scores[order[i]]) - maximum);
  std::vector<double> shares;
  for (std::size_t i = 0; i < count; ++i) {
    const double p = std::exp(static_cast<double>(scores[order[i]]) - maximum) / total;
    shares.push_back(p > 0 ? -p * std::log(p) : 0);
    entropy += shares.back();
  }
  double sum = shares[0];
  std::size_t kept = 1;
  for (; kept < count && scores[order[kept]] > kNever && (sum += shares[kept]) <= part * entropy; ++kept) {
  }
  for (std::size_t i = kept; i < order.size(); ++i) scores[order[i]] = kNever;
}

void keep_min_p(double p, std::size_t keep, Ranking& ranking, std::span<float> scores) {
  const auto& order = ranking.order();
  if (order.empty()) return;
  const double threshold = static_cast<double>(scores[order[0]]) + std::log(p);
  for (std::size_t i = keep; i < order.size(); ++i) {
    if (scores[order[i]] < threshold) scores[order[i]] = kNever;
  }
}

// Checks that probabilities are defined: they are not if a score is NaN, or infinite, as a tiny temperature
// makes it.
void require_finite(std::span<const float> scores) {
  for (const float score : scores) {
    if (score < std::numeric_limits<float>::infinity()) continue;
    throw Error(
        fmt::format("search: expected finite scores to sample from, got {} (temperature, penalties and "
                    "biases too far from 1 make them so, and damaged weights)",
                    score));
  }
}

// Returns the probabilities, and sets `entropy` in nats.
std::vector<double> probabilities(std::span<const float> scores, double& entropy) {
  const float maximum = *std::max_element(scores.begin(), scores.end());
  const double total = sum_of_exponentials(scores, maximum);
  std::vector<double> p;
  entropy = 0;
  for (const float score : scores) {
    p.push_back(std::exp(static_cast<double>(score) - maximum) / total);
    if (p.back() > 0) entropy -= p.back() * std::log(p.back());
  }
  return p;
}

// Keeps the tokens whose information content is nearest to the entropy, until their total probability reaches
// `mass`.
void keep_typical(double mass, std::size_t keep, std::span<float> scores) {
  double entropy = 0;
  const std::vector<double> p = probabilities(scores, entropy);
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto distance = [&](std::size_t i) {
    return p[i] > 0 ? std::abs(-std::log(p[i]) - entropy) : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  std::size_t kept = 0;
  for (double sum = 0; kept < order.size() && sum < mass; ++kept) sum += p[order[kept]];
  while (kept > 0 && kept < order.size() && distance(order[kept]) == distance(order[kept - 1])) ++kept;
  for (std::size_t i = std::max(kept, keep); i < order.size(); ++i) scores[order[i]] = kNever;
}

// Drops tokens with a probability below `least`, but never the `keep` best.
void drop_below(double least, const std::vector<double>& p, std::size_t keep, std::span<float> scores) {
  const float worst_kept = kth_largest(keep, scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (p[i] < least && scores[i] < worst_kept) scores[i] = kNever;
  }
}

// Whether the timestamps together are likelier than the likeliest other token.
bool prefers_timestamps(std::span<const float> others, std::span<const float> timestamps) {
  const float other = *std::max_element(others.begin(), others.end());
  const float most = *std::max_element(timestamps.begin(), timestamps.end());
  if (most == kNever) return false;
  double sum = 0;
  for (const float score : timestamps) sum += std::exp(static_cast<double>(score) - most);
  return most + std::log(sum) > other;
}

}  // namespace

Processors::Processors(const GenerationOptions& options, std::int64_t prompt_length, std::int64_t max_length,
                       std::span<const std::int64_t> source, ProcessScores own)
    : options_(options),
      source_(source),
      own_(std::move(own)),
      prompt_length_(prompt_length),
      max_length_(max_length),
      min_length_(options.min_new_tokens ? prompt_length + *options.min_new_tokens : options.min_length),
      begin_length_(prompt_length > 1 || !options.forced_bos_token_id ? prompt_length : prompt_length + 1),
      min_candidates_(
          options.num_beams > 1
              ? std::max<std::int64_t>(static_cast<std::int64_t>(options.eos_token_id.size()), 1) + 1
              : 1) {}

bool Processors::active(std::int64_t length) const {
  return !options_.sequence_bias.empty() || options_.encoder_no_repeat_ngram_size > 0 ||
         options_.exponential_decay_length_penalty || options_.repetition_penalty != 1 ||
         options_.encoder_repetition_penalty != 1 || options_.remove_invalid_values ||
         options_.no_repeat_ngram_size > 0 || !options_.bad_words_ids.empty() || length < min_length_ ||
         (options_.forced_bos_token_id && length == 1) ||
         (!options_.forced_eos_token_id.empty() && length == max_length_ - 1) ||
         !options_.suppress_tokens.empty() ||
         (!options_.begin_suppress_tokens.empty() && length == begin_length_) || options_.do_sample ||
         options_.renormalize_logits || own_ != nullptr;
}

void Processors::apply(std::span<const std::int64_t> sequence, std::span<float> scores) const {
  const auto length = static_cast<std::int64_t>(sequence.size());
  restrict_words(sequence, scores);
  force(length, scores);
  ban(options_.suppress_tokens, scores);
  if (length == begin_length_) ban(options_.begin_suppress_tokens, scores);
  if (own_) own_(sequence, scores);
  if (options_.do_sample) warp(scores);
  if (options_.renormalize_logits) {
    const float maximum = *std::max_element(scores.begin(), scores.end());
    if (maximum == kNever) return;
    const double log_sum = maximum + std::log(sum_of_exponentials(scores, maximum));
    for (float& score : scores) score = static_cast<float>(score - log_sum);
  }
}

void Processors::restrict_words(std::span<const std::int64_t> sequence, std::span<float> scores) const {
  if (!options_.sequence_bias.empty()) add_sequence_biases(sequence, options_.sequence_bias, scores);
  if (options_.encoder_repetition_penalty != 1) {
    penalize_repetition(source_, static_cast<float>(1 / options_.encoder_repetition_penalty), scores);
  }
  if (options_.repetition_penalty != 1) {
    penalize_repetition(sequence, static_cast<float>(options_.repetition_penalty), scores);
  }
  if (options_.no_repeat_ngram_size > 0) {
    ban_ngrams_of(sequence, sequence, static_cast<std::size_t>(options_.no_repeat_ngram_size), scores);
  }
  if (options_.encoder_no_repeat_ngram_size > 0) {
    ban_ngrams_of(source_, sequence, static_cast<std::size_t>(options_.encoder_no_repeat_ngram_size), scores);
  }
  ban_bad_words(sequence, options_, scores);
  if (static_cast<std::int64_t>(sequence.size()) < min_length_) ban(options_.eos_token_id, scores);
}

void Processors::force(std::int64_t length, std::span<float> scores) const {
  if (options_.forced_bos_token_id && length == 1) only(std::span(&*options_.forced_bos_token_id, 1), scores);
  if (!options_.forced_eos_token_id.empty() && length == max_length_ - 1)
    only(options_.forced_eos_token_id, scores);
  if (options_.remove_invalid_values) make_finite(scores);
  if (!options_.exponential_decay_length_penalty) return;
  const auto [start, factor] = *options_.exponential_decay_length_penalty;
  const std::int64_t steps = length - prompt_length_ - start;
  if (steps <= 0) return;
  for (const std::int64_t token : options_.eos_token_id) {
    if (static_cast<std::size_t>(token) >= scores.size()) continue;
    float& score = scores[static_cast<std::size_t>(token)];
    if (std::isinf(score)) continue;  // banned tokens stay banned
    score += std::abs(score) * static_cast<float>(std::pow(factor, static_cast<double>(steps)) - 1);
  }
}

void Processors::warp(std::span<float> scores) const {
  if (options_.temperature != 1) {
    for (float& score : scores) score /= static_cast<float>(options_.temperature);
  }
  require_finite(scores);
  Ranking ranking(scores);
  if (options_.top_h) keep_top_h(*options_.top_h, ranking, scores);
  const auto keep = std::min(static_cast<std::size_t>(min_candidates_), scores.size());
  if (options_.top_k > 0) keep_top_k(std::max(static_cast<std::size_t>(options_.top_k), keep), scores);
  if (options_.top_p < 1) keep_top_p(options_.top_p, keep, ranking, scores);
  if (options_.min_p && *options_.min_p > 0) keep_min_p(*options_.min_p, keep, ranking, scores);
  if (options_.typical_p < 1) keep_typical(options_.typical_p, keep, scores);
  double entropy = 0;
  if (options_.epsilon_cutoff > 0)
    drop_below(options_.epsilon_cutoff, probabilities(scores, entropy), keep, scores);
  if (options_.eta_cutoff > 0) {
    const std::vector<double> p = probabilities(scores, entropy);
    drop_below(std::min(options_.eta_cutoff, std::sqrt(options_.eta_cutoff) * std::exp(-entropy)), p, keep,
               scores);
  }
}

void TimestampRules::apply(std::span<const std::int64_t> ids, std::span<float> scores) const {
  const auto vocabulary = static_cast<std::int64_t>(scores.size());
  const std::int64_t times = first();
  if (times >= vocabulary) return;
  const auto ban = [&](std::int64_t from, std::int64_t to) {
    const auto begin = std::clamp<std::int64_t>(from, 0, vocabulary);
    const auto stop = std::clamp<std::int64_t>(to, begin, vocabulary);
    std::fill(scores.begin() + begin, scores.begin() + stop, kNever);
  };
  ban(no_timestamps, times);
  const auto is_time = [&](std::int64_t id) { return id >= times; };
  const std::size_t count = ids.size();
  const bool last_is_time = count >= 1 && is_time(ids[count - 1]);
  const bool before_is_time = count < 2 || is_time(ids[count - 2]);
  if (last_is_time && before_is_time) ban(times, vocabulary);
  if (last_is_time && !before_is_time) ban(0, end);
  const auto latest = std::find_if(ids.rbegin(), ids.rend(), is_time);
  if (latest != ids.rend()) ban(times, last_is_time && !before_is_time ? *latest : *latest + 1);
  if (ids.empty()) {
    ban(0, times);
    if (most_initial) ban(times + *most_initial + 1, vocabulary);
  }
  const auto split = static_cast<std::size_t>(times);
  if (prefers_timestamps(scores.first(split), scores.subspan(split))) ban(0, times);
}

}  // namespace heed::generate
