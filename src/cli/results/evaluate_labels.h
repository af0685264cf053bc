// The part of heed evaluate that scores models for labeled texts: classifiers, taggers, and those that
// answer.
#pragma once

#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/input/models.h"

namespace heed::cli {

struct LabelEvaluation {
  ModelChoice model;
  std::string data;                    // the file
  std::vector<std::string> overrides;  // "data.format=csv": how it is read
  bool is_tsv = false;       // of --tsv: TEXT<TAB>LABEL unless `columns` or the labels say otherwise
  std::string columns = {};  // "label,text"
  std::int64_t batch_tokens = 4096;
  WeightArguments weights = {};
};

/// Prints the scores of a model on data that are read as heed train reads them: of a classifier that gives
/// one label accuracy and F1, also of each label; else the scores of the task in training. Labels are the
/// model's names, or, of that classifier, their numbers.
void evaluate_labels(const LabelEvaluation& arguments, const Globals& globals);

}  // namespace heed::cli
