// Labelled texts for training encoders: whole texts with labels, words with tags, questions with answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/train/recipe.h"

namespace heed {

/// A text, or a pair, with its labels. `words` have `labels` of their own for tagging.
struct LabelledText {
  std::string text;
  std::string pair;  ///< empty: none
  std::vector<std::string> labels;
  std::int64_t line = 0;  ///< in its file, from 1
};

struct LabelledTexts {
  std::vector<LabelledText> texts;
  std::int64_t skipped = 0;  ///< entries whose text is blank
};

/// Words of a sentence and the tag of each.
struct TaggedWords {
  std::vector<std::string> words;
  std::vector<std::string> tags;
};

/// A question on a context, with the answers that count as right.
struct AnsweredQuestion {
  std::string question;
  std::string context;
  std::vector<std::string> answers;
  std::int64_t start = 0;  ///< first character (code point) of the first answer in the context
};

/// The texts of a file, in data.format: tsv (data.text_column, pair_column, label_column), jsonl (text_key,
/// pair_key, label_key) or labelled (a label, white space, the text). A label of several (multi-label) has
/// its parts separated by commas, or in a list. Throws Error naming the file and line.
LabelledTexts read_labelled(const std::filesystem::path& file, const Recipe& recipe);

/// The sentences of a CoNLL file: a word and, in the last column, its tag a line, separated by spaces or
/// tabs, in as many columns on every line; a blank line ends a sentence. data.word_prefix is removed where
/// words begin with it. Throws Error naming the line.
std::vector<TaggedWords> read_conll(const std::filesystem::path& file, const Recipe::Data& data);

/// The questions of a file in SQuAD 1.1's JSON. Throws Error naming the question.
std::vector<AnsweredQuestion> read_squad(const std::filesystem::path& file);

/// Numbers of examples for training, development and test, without those that have files of their own.
struct Folds {
  std::vector<std::int64_t> train, dev, test;
};

/// The examples of these numbers.
template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<std::int64_t>& numbers) {
  std::vector<T> part;
  for (const std::int64_t i : numbers) part.push_back(all[static_cast<std::size_t>(i)]);
  return part;
}

/// Splits 0 .. size - 1 at random by data.split_seed: with data.folds, fold data.fold is the test set; else
/// data.test_size examples are; data.dev_size others are the development set. Throws Error if none are left
/// to train.
Folds split_examples(std::int64_t size, const Recipe::Data& data);

}  // namespace heed
