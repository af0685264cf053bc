// Classification metrics: accuracy, precision, recall and F1 of predicted labels.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

struct LabelStatistics {
  std::int64_t correct = 0;    ///< correct predictions
  std::int64_t predicted = 0;  ///< number of predictions
  std::int64_t support = 0;    ///< number of true instances
  double precision = 0;        ///< correct / predicted; 0 if never predicted
  double recall = 0;           ///< correct / support
  double f1 = 0;               ///< 2 correct / (predicted + support)
};

struct LabelReport {
  double accuracy = 0;
  double macro_f1 = 0;     ///< mean of F1 over labels that were predicted or true at least once
  double weighted_f1 = 0;  ///< mean of F1 weighted by support
  std::vector<LabelStatistics> labels;
};

/// Compares the predicted with the gold labels, each in 0 .. count - 1. Throws Error if the lists differ in
/// length, are empty, or contain other labels.
LabelReport label_report(std::span<const std::size_t> predicted, std::span<const std::size_t> gold,
                         std::size_t count);

// Scores of tagged words and of answers to questions.

/// Entities found: precision, recall and F1 over all sentences (micro average), each in 0 .. 1.
struct EntityReport {
  std::int64_t correct = 0;
  std::int64_t predicted = 0;
  std::int64_t support = 0;
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

/// Compares the entities that two lists of tag sequences describe, as conlleval does: an entity is correct if
/// its type, its first and its last word are. B-X begins an entity, I-X continues one of type X or begins
/// one, O is outside. Throws Error if the sequences differ in number or length.
EntityReport entity_report(std::span<const std::vector<std::string>> predicted,
                           std::span<const std::vector<std::string>> gold);

/// The report of these counts, e.g. of several reports together.
EntityReport entity_report(std::int64_t correct, std::int64_t predicted, std::int64_t support);

/// The scores of one answer against the gold answers, as SQuAD 1.1's evaluation script: the best
/// of them.
struct AnswerScore {
  double exact =
      0;  ///< 1 if equal after normalization: lower case, without punctuation, articles and extra spaces
  double f1 = 0;  ///< of the words in common
};
AnswerScore answer_score(std::string_view predicted, std::span<const std::string> gold);

/// Pearson's correlation of two lists of equal length; 0 if one is constant.
double pearson(std::span<const double> a, std::span<const double> b);
/// Spearman's: Pearson's correlation of the ranks, equal values sharing their mean rank.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace heed
