// Merges the most frequent pair until the vocabulary is full. Counts are updated only in words with the
// pair; a queue holds the candidates.
#include "text/training/bpe_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "core/stop_scope.h"
#include "core/utf8.h"
#include "heed/error.h"
#include "text/algorithms/token_table.h"

namespace heed {
namespace {

using PairKey = std::uint64_t;

PairKey pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<PairKey>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// A pair in the queue with the words in which it may be merged.
struct Candidate {
  std::int64_t count = 0;
  PairKey pair = 0;
  std::vector<std::uint32_t> words;

  /// The most frequent pair comes first; of equally frequent ones, that of the lowest ids.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class BpeTrainer {
 public:
  BpeTrainer(const BpeTraining& training, const char* where) : training_(training) {
    for (const std::string& token : training.special_tokens) token_id(token);
    where_ = where;
  }

  TrainedBpe train(const std::vector<CountedWord>& words) {
    add_alphabet(words);
    split(words);
    if (static_cast<std::int64_t>(tokens_.size()) > training_.vocab_size)
      throw Error(fmt::format("{}: vocab_size: expected at least {} (special tokens and characters), got {}",
                              where_, tokens_.size(), training_.vocab_size));
    count_pairs();
    merge_pairs();
    return {std::move(tokens_), final_merges()};
  }

 private:
  struct Word {
    std::size_t begin;  // of symbols_
    std::size_t size;
    std::int64_t count;
  };
  /// A pair's count in all words, and the words that have it since the last time it was queued.
  struct Pair {
    PairKey key;
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;
  };

  /// Returns the id of a token, which is added if it is new.
  std::int32_t token_id(const std::string& token) {
    const auto place = ids_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
    if (place.second) tokens_.push_back(token);
    return place.first->second;
  }
  static std::string text_of(char32_t c) {
    std::string text;
    append_utf8(text, c);
    return text;
  }
  void add_alphabet(const std::vector<CountedWord>& words);
  void split(const std::vector<CountedWord>& words);
  void count_pairs();
  void merge_pairs();
  void merge_in(std::uint32_t word, std::int32_t left, std::int32_t right, std::int32_t merged);
  /// Adds `change` times the word's count to that of a pair.
  void change(std::uint32_t word, std::int32_t left, std::int32_t right, int change);
  void queue_changed();
  std::int32_t merged_token(PairKey pair);
  std::vector<std::pair<std::int32_t, std::int32_t>> final_merges() const;

  const BpeTraining& training_;
  const char* where_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<std::int32_t> symbols_;  // the tokens of all words
  std::vector<Word> words_;
  PairMap places_;  // of a pair in pairs_
  std::vector<Pair> pairs_;
  std::vector<std::uint32_t> changed_;  // pairs with words to be queued
  std::vector<Candidate> queue_;        // a heap
  std::vector<PairKey> merges_;
};

void BpeTrainer::add_alphabet(const std::vector<CountedWord>& words) {
  std::map<char32_t, std::int64_t> counts;
  for (const CountedWord& word : words) {
    for (std::size_t at = 0; at < word.word.size();) counts[next_character(word.word, at)] += word.count;
  }
  for (const char32_t c : training_.alphabet) counts[c] = INT64_MAX;
  if (training_.most_characters && counts.size() > *training_.most_characters) {
    std::vector<std::pair<char32_t, std::int64_t>> kept(counts.begin(), counts.end());
    std::stable_sort(kept.begin(), kept.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    kept.resize(*training_.most_characters);
    counts = {kept.begin(), kept.end()};
  }
  for (const auto& [c, count] : counts) token_id(text_of(c));
}

/// Splits the words into their characters; those outside the alphabet are left out.
void BpeTrainer::split(const std::vector<CountedWord>& words) {
  std::set<char32_t> inner;
  for (const CountedWord& word : words) {
    for (std::size_t at = 0; !training_.prefix.empty() && at < word.word.size();) {
      const bool first = at == 0;
      const char32_t c = next_character(word.word, at);
      if (!first && ids_.contains(text_of(c))) inner.insert(c);
    }
  }
  for (const char32_t c : inner) token_id(training_.prefix + text_of(c));
  for (const CountedWord& word : words) {
    const std::size_t begin = symbols_.size();
    for (std::size_t at = 0; at < word.word.size();) {
      const bool first = at == 0;
      const std::string character = text_of(next_character(word.word, at));
      if (!ids_.contains(character)) continue;
      symbols_.push_back(token_id(first ? character : training_.prefix + character));
    }
    words_.push_back({begin, symbols_.size() - begin, word.count});
  }
}

void BpeTrainer::count_pairs() {
  for (std::uint32_t i = 0; i < words_.size(); ++i) {
    const Word& word = words_[i];
    for (std::size_t k = word.begin; k + 1 < word.begin + word.size; ++k)
      change(i, symbols_[k], symbols_[k + 1], 1);
  }
  queue_changed();
}

void BpeTrainer::change(std::uint32_t word, std::int32_t left, std::int32_t right, int change) {
  const PairKey key = pair_key(left, right);
  std::uint32_t place = places_.find(key);
  if (place == PairMap::kNone) {
    place = static_cast<std::uint32_t>(pairs_.size());
    places_.set(key, place);
    pairs_.push_back({key, 0, {}});
  }
  Pair& pair = pairs_[place];
  pair.count += change * words_[word].count;
  if (change < 0) return;
  if (pair.words.empty()) changed_.push_back(place);
  // All changes of a word come one after another.
  if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
}

void BpeTrainer::queue_changed() {
  for (const std::uint32_t place : changed_) {
    Pair& pair = pairs_[place];
    if (pair.count > 0) {
      queue_.push_back({pair.count, pair.key, std::move(pair.words)});
      std::push_heap(queue_.begin(), queue_.end());
    }
    pair.words = {};
  }
  changed_.clear();
}

std::int32_t BpeTrainer::merged_token(PairKey pair) {
  const std::string& left = tokens_[pair >> 32];
  std::string_view right = tokens_[pair & 0xFFFFFFFF];
  if (right.starts_with(training_.prefix)) right.remove_prefix(training_.prefix.size());
  return token_id(left + std::string(right));
}

void BpeTrainer::merge_pairs() {
  while (static_cast<std::int64_t>(tokens_.size()) < training_.vocab_size && !queue_.empty()) {
    throw_if_stopped();
    std::pop_heap(queue_.begin(), queue_.end());
    Candidate best = std::move(queue_.back());
    queue_.pop_back();
    // Other merges may have changed the count since the pair was queued.
    if (const std::int64_t count = pairs_[places_.find(best.pair)].count; count != best.count) {
      best.count = count;
      queue_.push_back(std::move(best));
      std::push_heap(queue_.begin(), queue_.end());
      continue;
    }
    if (best.count < std::max<std::int64_t>(1, training_.min_frequency)) break;
    const std::int32_t merged = merged_token(best.pair);
    merges_.push_back(best.pair);
    for (const std::uint32_t word : best.words)
      merge_in(word, static_cast<std::int32_t>(best.pair >> 32),
               static_cast<std::int32_t>(best.pair & 0xFFFFFFFF), merged);
    queue_changed();
  }
}

void BpeTrainer::merge_in(std::uint32_t index, std::int32_t left, std::int32_t right, std::int32_t merged) {
  Word& word = words_[index];
  std::int32_t* symbols = symbols_.data() + word.begin;
  std::size_t to = 0;
  for (std::size_t from = 0; from < word.size;) {
    if (symbols[from] != left || from + 1 == word.size || symbols[from + 1] != right) {
      symbols[to++] = symbols[from++];
      continue;
    }
    from += 2;
    if (to > 0) {
      change(index, symbols[to - 1], left, -1);
      change(index, symbols[to - 1], merged, 1);
    }
    symbols[to++] = merged;
    if (from < word.size) {
      change(index, right, symbols[from], -1);
      change(index, merged, symbols[from], 1);
    }
  }
  word.size = to;
}

/// A pair may be merged again in words in which it appeared later; its last place counts.
std::vector<std::pair<std::int32_t, std::int32_t>> BpeTrainer::final_merges() const {
  PairMap last(merges_.size());
  for (std::size_t i = 0; i < merges_.size(); ++i) last.set(merges_[i], static_cast<std::uint32_t>(i));
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;
  for (std::size_t i = 0; i < merges_.size(); ++i) {
    if (last.find(merges_[i]) != i) continue;
    merges.emplace_back(static_cast<std::int32_t>(merges_[i] >> 32),
                        static_cast<std::int32_t>(merges_[i] & 0xFFFFFFFF));
  }
  return merges;
}

}  // namespace

TrainedBpe train_bpe(const std::vector<CountedWord>& words, const BpeTraining& training, const char* where) {
  return BpeTrainer(training, where).train(words);
}

}  // namespace heed
