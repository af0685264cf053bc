// Scores of labels, entities and answers, and correlations of values.
#include "heed/score/labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "core/strings.h"
#include "heed/error.h"

namespace heed {

LabelReport label_report(std::span<const std::size_t> predicted, std::span<const std::size_t> gold,
                         std::size_t count) {
  if (predicted.size() != gold.size() || gold.empty()) {
    throw Error("label_report: expected one predicted label per gold label, and at least one, got " +
                std::to_string(predicted.size()) + " and " + std::to_string(gold.size()));
  }
  LabelReport report;
  report.labels.resize(count);
  std::int64_t hits = 0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    if (predicted[i] >= count || gold[i] >= count)
      throw Error("label_report: expected labels below " + std::to_string(count) + ", got a larger one");
    ++report.labels[predicted[i]].predicted;
    ++report.labels[gold[i]].support;
    if (predicted[i] != gold[i]) continue;
    ++report.labels[gold[i]].correct;
    ++hits;
  }
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
  };
  const auto total = static_cast<std::int64_t>(gold.size());
  std::int64_t seen = 0;
  for (LabelStatistics& label : report.labels) {
    label.precision = ratio(label.correct, label.predicted);
    label.recall = ratio(label.correct, label.support);
    label.f1 = ratio(2 * label.correct, label.predicted + label.support);
    report.macro_f1 += label.f1;
    report.weighted_f1 += label.f1 * ratio(label.support, total);
    seen += label.predicted + label.support > 0;
  }
  report.accuracy = ratio(hits, total);
  report.macro_f1 /= static_cast<double>(seen);
  return report;
}

namespace {

struct Entity {
  std::string type;
  std::size_t begin, end;
  auto operator<=>(const Entity&) const = default;
};

std::set<Entity> entities_of(const std::vector<std::string>& tags) {
  std::set<Entity> found;
  std::string open;  // type of the entity that the word before belongs to
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= tags.size(); ++i) {
    const std::string tag = i < tags.size() ? tags[i] : "O";
    const bool prefixed = tag.size() > 2 && tag[1] == '-';
    const std::string type = tag == "O" ? "" : prefixed ? tag.substr(2) : tag;
    const bool begins = !type.empty() && (type != open || (prefixed && tag[0] == 'B'));
    if (!open.empty() && (begins || type.empty())) found.insert({open, begin, i});
    if (begins) begin = i;
    open = type;
  }
  return found;
}

double ratio(double a, double b) { return b == 0 ? 0 : a / b; }

// Words in lower case without punctuation and articles. ASCII punctuation, as in the script.
std::vector<std::string> normalized_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
    word.clear();
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
      end_word();
    } else if (byte >= 0x80 || is_ascii_letter_or_digit(c)) {
      word += ascii_lower(c);
    }
  }
  end_word();
  return words;
}

AnswerScore score_against(const std::vector<std::string>& predicted, const std::vector<std::string>& gold) {
  if (predicted.empty() || gold.empty()) {
    const double both = predicted.empty() && gold.empty() ? 1 : 0;
    return {both, both};
  }
  std::map<std::string, std::int64_t> left;
  for (const std::string& word : gold) ++left[word];
  std::int64_t common = 0;
  for (const std::string& word : predicted) common += left[word]-- > 0;
  const double precision = ratio(static_cast<double>(common), static_cast<double>(predicted.size()));
  const double recall = ratio(static_cast<double>(common), static_cast<double>(gold.size()));
  return {predicted == gold ? 1.0 : 0.0, ratio(2 * precision * recall, precision + recall)};
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = static_cast<double>(begin + end - 1) / 2;
    for (std::size_t i = begin; i < end; ++i) rank[order[i]] = mean;
    begin = end;
  }
  return rank;
}

}  // namespace

EntityReport entity_report(std::span<const std::vector<std::string>> predicted,
                           std::span<const std::vector<std::string>> gold) {
  if (predicted.size() != gold.size()) {
    throw Error("entity_report: expected one predicted sequence per gold sequence, got " +
                std::to_string(predicted.size()) + " and " + std::to_string(gold.size()));
  }
  EntityReport report;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    if (predicted[i].size() != gold[i].size())
      throw Error("entity_report: expected sequences of equal length, got another one at " +
                  std::to_string(i));
    const std::set<Entity> found = entities_of(predicted[i]), wanted = entities_of(gold[i]);
    report.predicted += static_cast<std::int64_t>(found.size());
    report.support += static_cast<std::int64_t>(wanted.size());
    report.correct +=
        std::count_if(found.begin(), found.end(), [&](const Entity& e) { return wanted.contains(e); });
  }
  return entity_report(report.correct, report.predicted, report.support);
}

EntityReport entity_report(std::int64_t correct, std::int64_t predicted, std::int64_t support) {
  const auto hits = static_cast<double>(correct);
  return {correct,
          predicted,
          support,
          ratio(hits, static_cast<double>(predicted)),
          ratio(hits, static_cast<double>(support)),
          ratio(2 * hits, static_cast<double>(predicted + support))};
}

AnswerScore answer_score(std::string_view predicted, std::span<const std::string> gold) {
  AnswerScore best;
  const std::vector<std::string> words = normalized_words(predicted);
  for (const std::string& answer : gold) {
    const AnswerScore score = score_against(words, normalized_words(answer));
    best = {std::max(best.exact, score.exact), std::max(best.f1, score.f1)};
  }
  return best;
}

double pearson(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.empty())
    throw Error("pearson: expected two lists of equal length and at least one value, got others");
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ratio(ab, std::sqrt(aa * bb));
}

double spearman(std::span<const double> a, std::span<const double> b) { return pearson(ranks(a), ranks(b)); }

}  // namespace heed
