// The labels of training data: which there are, in which order, and what config.json says of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/labeled_data.h"
#include "heed/train/loop.h"

namespace heed {

/// The examples of a label: how many, and where the first is.
struct LabelCount {
  std::int64_t count = 0, first = 0;
};

std::map<std::string, LabelCount> count_labels(const LabeledTexts& texts);

/// The labels in order: numbers by value, others by their bytes.
std::vector<std::string> sorted_labels(const std::map<std::string, LabelCount>& counts);

/// Advice on a label in line 1 of a table that is none.
const char* header_hint(const LabeledText& text, const DataOptions& data);

/// A warning of labels that one example has, which are probably mistakes; empty: there are none.
std::string rare_labels(const LabeledTexts& texts, const std::map<std::string, LabelCount>& counts,
                        const DataOptions& data);

/// The labels of the model in `from` (empty: a new one) if they include all of `names`: then its head is
/// kept. Else `names`.
std::vector<std::string> known_labels(const std::filesystem::path& from, std::vector<std::string> names);

/// Throws Error if there are fewer than two labels to tell apart.
void check_labels(const std::vector<std::string>& names, const char* what, const std::filesystem::path& file);

/// The number of the label of an example. Throws Error if it is none of `names`.
std::int64_t label_number(const std::vector<std::string>& names, const std::string& label,
                          const std::string& where, const char* hint);

/// The members of config.json for these labels; `problem` is problem_type, empty: none.
std::string label_members(const std::vector<std::string>& names, std::string_view problem);

/// The scores of predictions among `labels` labels: accuracy and macro F1, in percent.
std::vector<Metric> label_metrics(const std::vector<std::size_t>& predicted,
                                  const std::vector<std::size_t>& right, std::size_t labels);

}  // namespace heed
