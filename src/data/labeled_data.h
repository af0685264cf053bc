// Labeled texts for training encoders: whole texts with labels, words with tags, questions with answers,
// texts to compare with each other. They may be larger than memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "files/spilled_array.h"
#include "heed/data/data_options.h"

namespace heed {

/// Writes fields one after another: numbers as they are in memory, texts and lists after their size.
class RecordWriter {
 public:
  template <class T>
  void write(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      append(std::as_bytes(std::span(&value, 1)));
    } else {
      write(static_cast<std::uint64_t>(value.size()));
      if constexpr (std::is_arithmetic_v<typename T::value_type>) {
        append(std::as_bytes(std::span(value)));
      } else {
        for (const auto& element : value) write(element);
      }
    }
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> bytes_;
};

/// Reads the fields that a RecordWriter wrote, in the same order.
class RecordReader {
 public:
  explicit RecordReader(const std::byte* at) : at_(at) {}
  template <class T>
  void read(T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      take(&value, sizeof(T));
    } else {
      std::uint64_t size = 0;
      read(size);
      value.resize(size);
      if constexpr (std::is_arithmetic_v<typename T::value_type>) {
        take(value.data(), size * sizeof(typename T::value_type));
      } else {
        for (auto& element : value) read(element);
      }
    }
  }

 private:
  void take(void* to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, at_, bytes);
    at_ += bytes;
  }
  const std::byte* at_;
};

/// A list of records, which are made anew whenever they are read. `Record::fields(record)` ties the members:
/// numbers, texts, and lists of them.
/// Threads: one may add; once finished, several may read.
template <class Record>
class SpilledRecords {
 public:
  /// With a folder, many records are kept in files there (SpilledBytes).
  explicit SpilledRecords(const std::filesystem::path& folder = {}) : bytes_(folder), ends_(folder) {}

  void add(const Record& record) {
    writer_.clear();
    std::apply([&](const auto&... field) { (writer_.write(field), ...); }, Record::fields(record));
    bytes_.append(writer_.bytes());
    ends_.push_back(bytes_.size());
  }
  /// Nothing is added afterward. Must be called before records are read if there is a folder.
  void finish() {
    bytes_.finish();
    ends_.finish();
  }
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  bool empty() const { return size() == 0; }
  Record operator[](std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    RecordReader reader(bytes_.data() + (at == 0 ? 0 : ends_.view()[at - 1]));
    Record record{};
    std::apply([&](auto&... field) { (reader.read(field), ...); }, Record::fields(record));
    return record;
  }

 private:
  RecordWriter writer_;
  SpilledBytes bytes_;
  SpilledArray<std::uint64_t> ends_;
};

/// Records of some numbers in a list, or in anything that is read as one.
template <class List>
struct ChosenRecords {
  std::shared_ptr<const List> list = {};
  std::vector<std::int64_t> rows = {};

  std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
  bool empty() const { return rows.empty(); }
  auto operator[](std::int64_t i) const { return (*list)[rows[static_cast<std::size_t>(i)]]; }
};

/// A text, or a pair, with its labels.
struct LabeledText {
  std::string text;
  std::string pair;  ///< empty: none
  std::vector<std::string> labels;
  std::int64_t file = 0;  ///< number in LabeledEntries::files
  std::int64_t line = 0;  ///< in the file, from 1; 0: the example is a whole file
  double weight = 1;      ///< of its loss

  static auto fields(auto& t) { return std::tie(t.text, t.pair, t.labels, t.file, t.line, t.weight); }
};

/// Words of a sentence and the tag of each.
struct TaggedWords {
  std::vector<std::string> words;
  std::vector<std::string> tags;
  std::int64_t file = 0;  ///< number in LabeledEntries::files
  std::int64_t line = 0;  ///< of the first word; the others follow, one a line

  static auto fields(auto& s) { return std::tie(s.words, s.tags, s.file, s.line); }
};

/// A text and others that it is compared with: a question and its documents, for example.
struct ComparedTexts {
  std::string query;
  std::vector<std::string> texts;  ///< without labels: the one that belongs to the query, and negatives
  std::vector<double> labels;      ///< how well each text fits; empty: none are given
  std::int64_t file = 0;           ///< number in LabeledEntries::files
  std::int64_t line = 0;           ///< in the file, from 1

  static auto fields(auto& c) { return std::tie(c.query, c.texts, c.labels, c.file, c.line); }
};

/// The entries of files of lines.
template <class Entry>
struct LabeledEntries {
  SpilledRecords<Entry> entries;
  std::vector<std::filesystem::path> files = {};
  std::int64_t skipped = 0;        ///< entries whose text is blank
  std::int64_t control_bytes = 0;  ///< zeros and other control codes, which texts do not have

  std::int64_t size() const { return entries.size(); }
  Entry operator[](std::int64_t i) const { return entries[i]; }
  /// "FILE:LINE" of an entry's line of number `i`, or "FILE".
  std::string where(const Entry& entry, std::int64_t i = 0) const {
    const std::string file = files[static_cast<std::size_t>(entry.file)].string();
    return entry.line == 0 ? file : file + ":" + std::to_string(entry.line + i);
  }
};
using LabeledTexts = LabeledEntries<LabeledText>;
using TaggedSentences = LabeledEntries<TaggedWords>;
using ComparedEntries = LabeledEntries<ComparedTexts>;

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

/// Texts in data.format: tsv or csv (data.header, text_column, pair_column, label_column, weight_column),
/// jsonl (text_key, pair_key, label_key, weight_key) or `labelled` (a label, white space, the text). A label
/// of several (multi-label) has its parts separated by commas, or in a list.
LabeledTexts read_labeled(const std::filesystem::path& path, const DataOptions& data, bool multi_label,
                          const std::filesystem::path& folder);

/// Texts to compare, in data.format. jsonl: `anchor` (or query, text1, sentence1); `positive` (or document,
/// text2, sentence2), or the list `documents`; `negative`, `negatives` (texts or lists) and `negative_1`,
/// `negative_2`, ...; a number `score` (or label), or the list `labels`. tsv and csv (data.header): `scored`,
/// two texts and a number, else a text, its positive and negatives. Throws Error for texts that are blank.
ComparedEntries read_compared(const std::filesystem::path& path, const DataOptions& data, bool scored,
                              const std::filesystem::path& folder);

/// Paths of images, as texts, and their labels, in data.format: `folders` (each folder in `path` is a label,
/// and has its images, or folders of them), or tables like those of read_labeled(), whose paths start at the
/// table's folder. In folders, files whose names have no ending of an image are skipped.
LabeledTexts read_labeled_images(const std::filesystem::path& path, const DataOptions& data,
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

/// Which examples are equal: texts of the same characters, whatever their labels; of compared ones, the
/// query.
std::uint64_t content_key(const LabeledText& text);
std::uint64_t content_key(const TaggedWords& sentence);
std::uint64_t content_key(const AnsweredQuestion& question);
std::uint64_t content_key(const ComparedTexts& compared);

template <class List>
std::vector<std::uint64_t> content_keys(const List& list) {
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(list.size()));
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = content_key(list[static_cast<std::int64_t>(i)]);
  return keys;
}

/// Splits examples at random by data.split_seed: with data.folds, fold data.fold is the test set; else
/// data.test_size examples are; data.dev_size others are the development set. Examples of one key are in one
/// set, which may make it larger. Throws Error if none are left to train.
Folds split_examples(const std::vector<std::uint64_t>& keys, const DataOptions& data);

/// What to say of examples (`what` in the plural) that are there several times, and of those of a held-out
/// file that are in the training set, too; empty: nothing.
std::string repeated_examples(const std::vector<std::uint64_t>& keys, const char* what);
std::string trained_examples(const std::vector<std::uint64_t>& train,
                             const std::vector<std::uint64_t>& held_out, const std::filesystem::path& file,
                             const char* what);

/// What is read for a task. Without files of their own, dev and test are parts of `all`, which train is one
/// of.
template <class List>
struct LabeledParts {
  std::shared_ptr<const List> all = {};
  ChosenRecords<List> train = {}, dev = {}, test = {};
};

/// Reads data.train, data.dev and data.test with `read`, and splits the first. There is none in an
/// evaluation. `message` is told of equal examples.
template <class Read>
auto read_parts(const DataOptions& data, const char* what,
                const std::function<void(const std::string&)>& message, const Read& read) {
  using List = decltype(read(data.train));
  LabeledParts<List> parts{.all =
                               std::make_shared<const List>(data.train.empty() ? List() : read(data.train))};
  const std::vector<std::uint64_t> keys = content_keys(*parts.all);
  Folds folds = data.train.empty() ? Folds() : split_examples(keys, data);
  const auto say = [&](const std::string& text) {
    if (!text.empty()) message(text);
  };
  say(repeated_examples(keys, what));
  const auto part = [&](const std::filesystem::path& file, std::vector<std::int64_t>& rows) {
    if (file.empty()) return ChosenRecords<List>{parts.all, std::move(rows)};
    ChosenRecords<List> whole{std::make_shared<const List>(read(file))};
    whole.rows.resize(static_cast<std::size_t>(whole.list->size()));
    std::iota(whole.rows.begin(), whole.rows.end(), std::int64_t{0});
    say(trained_examples(keys, content_keys(*whole.list), file, what));
    return whole;
  };
  parts.train = {parts.all, std::move(folds.train)};
  parts.dev = part(data.dev, folds.dev);
  parts.test = part(data.test, folds.test);
  return parts;
}

}  // namespace heed
