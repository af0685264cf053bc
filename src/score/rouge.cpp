// ROUGE from numbered words.
#include "heed/score/rouge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "heed/error.h"
#include "score/segment.h"

namespace heed {
namespace {

using WordIds = std::vector<std::int64_t>;

/// A text as the numbers of its words, sentence by sentence and in one list.
struct NumberedText {
  std::vector<WordIds> sentences;
  WordIds words;
};

/// Numbers the words of texts: equal words get equal numbers.
class WordNumbers {
 public:
  explicit WordNumbers(const RougeOptions& options) : options_(options) {}

  NumberedText operator()(const std::string& text) {
    NumberedText numbered;
    bool in_sentence = false;
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) numbered.sentences.back().push_back(number_of(word));
      word.clear();
    };
    for (const char32_t c : score::decode(text, true)) {
      if (c == U'\n') {
        if (in_sentence) end_word();
        in_sentence = false;
        continue;
      }
      if (!in_sentence) numbered.sentences.emplace_back();
      in_sentence = true;
      if ((c >= U'a' && c <= U'z') || (c >= U'0' && c <= U'9')) {
        word += static_cast<char>(c);
      } else {
        end_word();
      }
    }
    if (in_sentence) end_word();
    for (const WordIds& sentence : numbered.sentences)
      numbered.words.insert(numbered.words.end(), sentence.begin(), sentence.end());
    return numbered;
  }

 private:
  std::int64_t number_of(const std::string& word) {
    const bool stems = options_.stemmer && word.size() > 3;
    return numbers_.try_emplace(stems ? score::porter_stem(word) : word, numbers_.size()).first->second;
  }
  const RougeOptions& options_;
  std::unordered_map<std::string, std::int64_t> numbers_;
};

// Not yet in percent: rounding would make ties of scores that differ in their last bit.
RougeScore rouge_of(std::int64_t hits, std::size_t hypothesis, std::size_t reference) {
  if (hits == 0) return {};
  const double precision = static_cast<double>(hits) / static_cast<double>(hypothesis),
               recall = static_cast<double>(hits) / static_cast<double>(reference);
  return {precision, recall, 2 * precision * recall / (precision + recall)};
}

/// The words, or the pairs of neighboring words, sorted.
std::vector<std::array<std::int64_t, 2>> word_ngrams(const WordIds& words, std::size_t order) {
  std::vector<std::array<std::int64_t, 2>> ngrams;
  for (std::size_t i = order - 1; i < words.size(); ++i) ngrams.push_back({words[i], words[i + 1 - order]});
  std::sort(ngrams.begin(), ngrams.end());
  return ngrams;
}

RougeScore ngram_score(const WordIds& hypothesis, const WordIds& reference, std::size_t order) {
  const auto found = word_ngrams(hypothesis, order), wanted = word_ngrams(reference, order);
  std::vector<std::array<std::int64_t, 2>> common;
  std::set_intersection(found.begin(), found.end(), wanted.begin(), wanted.end(), std::back_inserter(common));
  return rouge_of(static_cast<std::int64_t>(common.size()), found.size(), wanted.size());
}

/// The lengths of the longest common subsequences of all beginnings of two lists.
class CommonLengths {
 public:
  CommonLengths(const WordIds& reference, const WordIds& hypothesis)
      : reference_(reference),
        hypothesis_(hypothesis),
        lengths_((reference.size() + 1) * (hypothesis.size() + 1)) {
    for (std::size_t i = 1; i <= reference.size(); ++i) {
      for (std::size_t j = 1; j <= hypothesis.size(); ++j) {
        at(i, j) = reference[i - 1] == hypothesis[j - 1] ? at(i - 1, j - 1) + 1
                                                         : std::max(at(i - 1, j), at(i, j - 1));
      }
    }
  }
  std::int64_t length() { return at(reference_.size(), hypothesis_.size()); }
  /// Marks the words of the reference that are in one of its longest common subsequences: of several, the
  /// one that rouge-score takes.
  void mark(std::vector<bool>& common) {
    std::size_t i = reference_.size(), j = hypothesis_.size();
    while (i > 0 && j > 0) {
      if (reference_[i - 1] == hypothesis_[j - 1]) {
        common[i - 1] = true;
        --i, --j;
      } else if (at(i, j - 1) > at(i - 1, j)) {
        --j;
      } else {
        --i;
      }
    }
  }

 private:
  std::int32_t& at(std::size_t i, std::size_t j) { return lengths_[i * (hypothesis_.size() + 1) + j]; }
  const WordIds &reference_, &hypothesis_;
  std::vector<std::int32_t> lengths_;
};

/// Lin 2004, section 3.2. A word is counted at most as often as it occurs in either text, as in version 1.5.5
/// of the original program.
RougeScore summary_score(const NumberedText& hypothesis, const NumberedText& reference) {
  std::unordered_map<std::int64_t, std::int64_t> left;  // occurrences in the hypothesis not yet counted
  for (const std::int64_t word : hypothesis.words) ++left[word];
  std::int64_t hits = 0;
  for (const WordIds& sentence : reference.sentences) {
    std::vector<bool> common(sentence.size());
    for (const WordIds& other : hypothesis.sentences) CommonLengths(sentence, other).mark(common);
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      if (common[i] && left[sentence[i]]-- > 0) ++hits;
    }
  }
  return rouge_of(hits, hypothesis.words.size(), reference.words.size());
}

constexpr std::array kKinds = {&RougeScores::rouge1, &RougeScores::rouge2, &RougeScores::rougeL,
                               &RougeScores::rougeLsum};

RougeScores against(const NumberedText& hypothesis, const NumberedText& reference) {
  const WordIds &found = hypothesis.words, &wanted = reference.words;
  return {ngram_score(found, wanted, 1), ngram_score(found, wanted, 2),
          rouge_of(CommonLengths(wanted, found).length(), found.size(), wanted.size()),
          summary_score(hypothesis, reference)};
}

}  // namespace

std::string RougeScores::format() const {
  return fmt::format("ROUGE-1 = {:.2f}  ROUGE-2 = {:.2f}  ROUGE-L = {:.2f}  ROUGE-Lsum = {:.2f}", rouge1.f1,
                     rouge2.f1, rougeL.f1, rougeLsum.f1);
}

RougeScores sentence_rouge(const std::string& hypothesis, const std::vector<std::string>& references,
                           const RougeOptions& options) {
  if (references.empty()) throw Error("rouge: no references");
  WordNumbers numbered(options);
  const NumberedText found = numbered(hypothesis);
  RougeScores best;
  for (const std::string& reference : references) {
    const RougeScores scores = against(found, numbered(reference));
    for (const auto kind : kKinds) {
      if ((scores.*kind).f1 > (best.*kind).f1) best.*kind = scores.*kind;
    }
  }
  for (const auto kind : kKinds) {
    RougeScore& score = best.*kind;
    score = {100 * score.precision, 100 * score.recall, 100 * score.f1};
  }
  return best;
}

RougeScores corpus_rouge(const std::vector<std::string>& hypotheses,
                         const std::vector<std::vector<std::string>>& references,
                         const RougeOptions& options) {
  score::check_streams("rouge", hypotheses, references);
  RougeScores mean;
  const auto count = static_cast<double>(hypotheses.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const RougeScores scores =
        sentence_rouge(hypotheses[i], score::references_of_line(references, i), options);
    for (const auto kind : kKinds) {
      (mean.*kind).precision += (scores.*kind).precision / count;
      (mean.*kind).recall += (scores.*kind).recall / count;
      (mean.*kind).f1 += (scores.*kind).f1 / count;
    }
  }
  return mean;
}

std::string rouge_signature(std::int64_t references, const RougeOptions& options) {
  return fmt::format("nrefs:{}|stem:{}|version:{}", references, options.stemmer ? "porter" : "no",
                     score::signature_version());
}

}  // namespace heed
