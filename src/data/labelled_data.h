// Labelled texts for training encoders: whole texts with labels, words with tags, questions with answers.
// They may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/spilled_records.h"
#include "heed/data/data_options.h"

namespace heed {

/// A text, or a pair, with its labels.
struct LabelledText {
  std::string text;
  std::string pair;  ///< empty: none
  std::vector<std::string> labels;
  std::int64_t file = 0;  ///< number in LabelledEntries::files
  std::int64_t line = 0;  ///< in the file, from 1

  static auto fields(auto& t) { return std::tie(t.text, t.pair, t.labels, t.file, t.line); }
};

/// Words of a sentence and the tag of each.
struct TaggedWords {
  std::vector<std::string> words;
  std::vector<std::string> tags;
  std::int64_t file = 0;  ///< number in LabelledEntries::files
  std::int64_t line = 0;  ///< of the first word; the others follow, one a line

  static auto fields(auto& s) { return std::tie(s.words, s.tags, s.file, s.line); }
};

/// The entries of files of lines.
template <class Entry>
struct LabelledEntries {
  SpilledRecords<Entry> entries;
  std::vector<std::filesystem::path> files = {};
  std::int64_t skipped = 0;  ///< entries whose text is blank

  std::int64_t size() const { return entries.size(); }
  Entry operator[](std::int64_t i) const { return entries[i]; }
  /// "FILE:LINE" of an entry's line of number `i`.
  std::string where(const Entry& entry, std::int64_t i = 0) const {
    return files[static_cast<std::size_t>(entry.file)].string() + ":" + std::to_string(entry.line + i);
  }
};
using LabelledTexts = LabelledEntries<LabelledText>;
using TaggedSentences = LabelledEntries<TaggedWords>;

/// A question on a context, with the answers that count as right.
struct AnsweredQuestion {
  std::string question;
  std::string context;
  std::vector<std::string> answers;
  std::int64_t start = 0;  ///< first character (code point) of the first answer in the context
};

/// Questions, of which many may be on one context.
class AnsweredQuestions {
 public:
  explicit AnsweredQuestions(const std::filesystem::path& folder = {})
      : contexts_(folder), questions_(folder) {}
  /// Adds questions on one context, whose own `context` is not used.
  void add(const std::string& context, const std::vector<AnsweredQuestion>& questions);
  void finish();
  std::int64_t size() const { return questions_.size(); }
  AnsweredQuestion operator[](std::int64_t i) const;

 private:
  struct Context {
    std::string text;
    static auto fields(auto& c) { return std::tie(c.text); }
  };
  struct Question {
    std::string text;
    std::int64_t context = 0;
    std::vector<std::string> answers;
    std::int64_t start = 0;
    static auto fields(auto& q) { return std::tie(q.text, q.context, q.answers, q.start); }
  };
  SpilledRecords<Context> contexts_;
  SpilledRecords<Question> questions_;
};

// All of these read a file, or all files of a folder in the order of their names, line by line or value by
// value. Much of it is kept in files in `folder` (SpilledBytes). They throw Error naming the file and line.

/// Texts in data.format: tsv (data.text_column, pair_column, label_column), jsonl (text_key, pair_key,
/// label_key) or labelled (a label, white space, the text). A label of several (multi-label) has its parts
/// separated by commas, or in a list.
LabelledTexts read_labelled(const std::filesystem::path& path, const DataOptions& data, bool multi_label,
                            const std::filesystem::path& folder);

/// The sentences of CoNLL files: a word and, in the last column, its tag a line, separated by spaces or
/// tabs, in as many columns on every line of a file; a blank line ends a sentence. data.word_prefix is
/// removed where words begin with it.
TaggedSentences read_conll(const std::filesystem::path& path, const DataOptions& data,
                           const std::filesystem::path& folder);

/// The questions of files in SQuAD 1.1's JSON; those without answers are left out.
AnsweredQuestions read_squad(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Numbers of examples for training, development and test, without those that have files of their own.
struct Folds {
  std::vector<std::int64_t> train, dev, test;
};

/// Splits 0 .. size - 1 at random by data.split_seed: with data.folds, fold data.fold is the test set; else
/// data.test_size examples are; data.dev_size others are the development set. Throws Error if none are left
/// to train.
Folds split_examples(std::int64_t size, const DataOptions& data);

/// What is read for a task. Without files of their own, dev and test are parts of `all`, which train is one
/// of.
template <class List>
struct LabelledParts {
  std::shared_ptr<const List> all = {};
  ChosenRecords<List> train = {}, dev = {}, test = {};
};

/// Reads data.train, data.dev and data.test with `read`, and splits the first.
template <class Read>
auto read_parts(const DataOptions& data, const Read& read) {
  using List = decltype(read(data.train));
  LabelledParts<List> parts{.all = std::make_shared<const List>(read(data.train))};
  Folds folds = split_examples(parts.all->size(), data);
  const auto part = [&](const std::filesystem::path& file, std::vector<std::int64_t>& rows) {
    if (file.empty()) return ChosenRecords<List>{parts.all, std::move(rows)};
    ChosenRecords<List> whole{std::make_shared<const List>(read(file))};
    whole.rows.resize(static_cast<std::size_t>(whole.list->size()));
    std::iota(whole.rows.begin(), whole.rows.end(), std::int64_t{0});
    return whole;
  };
  parts.train = {parts.all, std::move(folds.train)};
  parts.dev = part(data.dev, folds.dev);
  parts.test = part(data.test, folds.test);
  return parts;
}

}  // namespace heed
