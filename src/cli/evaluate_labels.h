// The part of heed evaluate that scores labels of texts.
#pragma once

#include <string>

#include "cli/cli.h"
#include "cli/models.h"

namespace heed::cli {

struct LabelEvaluation {
  ModelChoice model;
  std::string tsv;
  std::string columns;  // "label,text"; empty: found out
  std::int64_t batch_tokens = 4096;
};

/// Labels the texts of a file and prints accuracy and F1. A line is TEXT<TAB>LABEL, or
/// TEXT<TAB>TEXT<TAB>LABEL for pairs; or, where the last column is no label but the first one is throughout,
/// LABEL<TAB>TEXT, as heed train reads it; or what `columns` says. Labels are the model's names or numbers. A
/// first line with any other label counts as a header.
void evaluate_labels(const LabelEvaluation& arguments, const Globals& globals);

}  // namespace heed::cli
