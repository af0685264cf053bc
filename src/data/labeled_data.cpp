// Reads labeled texts.
#include "data/labeled_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/json_field.h"
#include "core/strings.h"
#include "data/lines.h"
#include "heed/error.h"
#include "heed/random.h"
#include "heed/text/unicode.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSpace = " \t\r";

[[noreturn]] void refuse_bytes(const std::string& where) {
  throw Error(where + ": expected UTF-8, got other bytes (convert the file)");
}

// Calls `handle` for every line of a file and its number, from 1; returns the number of control bytes. Throws
// Error for text that is not UTF-8.
template <class Handle>
std::int64_t for_each_line(const fs::path& file, const Handle& handle) {
  data::Lines lines(file);
  for (std::string line; lines.next(line);) {
    if (first_invalid_utf8(line)) refuse_bytes(fmt::format("{}:{}", file.string(), lines.count()));
    handle(line, lines.count());
  }
  return lines.control_bytes();
}

bool is_empty_text(const std::string& text) { return text.find_first_not_of(kSpace) == std::string::npos; }

// Calls `on_row` for every row of a table, with the table, else `on_line` for every line, with its place and
// its number, but for blank ones; returns the number of control bytes.
template <class OnRow, class OnLine>
std::int64_t read_file(const fs::path& file, const DataOptions& data, const OnRow& on_row,
                       const OnLine& on_line) {
  if (data.format == "tsv" || data.format == "csv") {
    data::Table table(file, data.format, data.header);
    for (std::vector<std::string> row; table.next(row);) {
      if (!table.is_utf8()) refuse_bytes(table.where());
      if (!std::all_of(row.begin(), row.end(), is_empty_text)) on_row(row, table);
    }
    return table.control_bytes();
  }
  return for_each_line(file, [&](const std::string& line, std::int64_t number) {
    if (!is_empty_text(line)) on_line(line, fmt::format("{}:{}", file.string(), number), number);
  });
}

// The parts between separators that are not empty.
std::vector<std::string> split(const std::string& text, const char* separators) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

std::vector<std::string> labels_of(const std::string& text, bool multi_label) {
  if (!multi_label) return {text};
  return split(text, ",");
}

double checked_weight(std::optional<double> weight, const std::string& where, const std::string& given) {
  if (weight && std::isfinite(*weight) && *weight >= 0) return *weight;
  throw Error(fmt::format("{}: expected a weight of at least 0, got {}", where, given));
}

double weight_of(const std::string& text, const std::string& where) {
  double weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return checked_weight(whole ? std::optional(weight) : std::nullopt, where, "\"" + text + "\"");
}

LabeledText parse_columns(const std::vector<std::string>& columns, const std::string& where,
                          const DataOptions& data, bool multi_label) {
  const auto column = [&](std::int64_t number) -> const std::string& {
    if (number <= static_cast<std::int64_t>(columns.size()))
      return columns[static_cast<std::size_t>(number - 1)];
    throw Error(
        fmt::format("{}: expected {} columns separated by {}, got {} (data.text_column, data.label_column, "
                    "data.pair_column and data.weight_column choose them)",
                    where, number, data.format == "csv" ? "commas" : "tabs", columns.size()));
  };
  LabeledText labeled{column(data.text_column), data.pair_column > 0 ? column(data.pair_column) : "",
                      labels_of(column(data.label_column), multi_label)};
  if (data.weight_column > 0) labeled.weight = weight_of(column(data.weight_column), where);
  return labeled;
}

LabeledText parse_object(const std::string& line, const std::string& where, const DataOptions& data,
                         bool multi_label) {
  const Json json = parse_json(line, where);
  const JsonField object(json, where);
  LabeledText labeled{
      object.at(data.text_key).string(), data.pair_key.empty() ? "" : object.at(data.pair_key).string(), {}};
  if (!data.weight_key.empty())
    labeled.weight = checked_weight(object.at(data.weight_key).number(), where, "another");
  const Json* label = object.member(data.label_key);
  if (label == nullptr) throw Error(fmt::format("{}: {}: expected a label, got none", where, data.label_key));
  const auto add = [&](const Json& one) {
    if (one.is_null()) throw Error(fmt::format("{}: {}: expected a label, got null", where, data.label_key));
    labeled.labels.push_back(one.is_string() ? one.get<std::string>() : json_text(one));
  };
  if (label->is_array()) {
    for (const Json& one : *label) add(one);
  } else {
    add(*label);
  }
  if (!multi_label && labeled.labels.size() != 1) {
    throw Error(fmt::format("{}: {}: expected one label, got {} (task.problem = \"multi-label\" takes lists)",
                            where, data.label_key, labeled.labels.size()));
  }
  return labeled;
}

LabeledText parse_labeled(const std::string& line, bool multi_label) {
  const std::size_t begin = line.find_first_not_of(kSpace), end = line.find_first_of(kSpace, begin);
  const std::size_t text = end == std::string::npos ? end : line.find_first_not_of(kSpace, end);
  return {text == std::string::npos ? "" : line.substr(text), "",
          labels_of(line.substr(begin, end - begin), multi_label)};
}

// Whether the name ends like that of an image: which one it is, its first bytes tell.
bool is_named_as_image(const fs::path& file) {
  static constexpr std::string_view kEndings[] = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp",
                                                  ".gif", ".pbm",  ".pgm", ".ppm",  ".pnm"};
  const std::string ending = ascii_lower(file.extension().string());
  return std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
}

double number_of(const std::string& text, const std::string& where) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number)) return number;
  throw Error(
      fmt::format("{}: expected a number in the last column, got \"{}\" (is it a header line? "
                  "data.header = true skips it)",
                  where, text));
}

ComparedTexts parse_compared(const std::vector<std::string>& row, const std::string& where, bool scored) {
  if (scored ? row.size() != 3 : row.size() < 2) {
    throw Error(fmt::format("{}: expected {}, got {} columns", where,
                            scored ? "two texts and a number" : "a text, its positive and negatives",
                            row.size()));
  }
  ComparedTexts compared{row[0], {row.begin() + 1, row.end()}, {}};
  if (!scored) return compared;
  compared.labels = {number_of(row[2], where)};
  compared.texts.pop_back();
  return compared;
}

// The member of an object that has one of these names.
std::optional<JsonField> find_any(const JsonField& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (auto found = object.find(name)) return found;
  }
  return std::nullopt;
}

// The elements of a list, or the value itself.
template <class Handle>
void for_each_value(const JsonField& field, const Handle& handle) {
  if (!field.value().is_array()) return handle(field);
  for (std::size_t i = 0; i < field.array_size(); ++i) handle(field.at(i));
}

ComparedTexts parse_compared(const std::string& line, const std::string& where) {
  const Json json = parse_json(line, where);
  const JsonField object(json, where);
  ComparedTexts compared;
  const auto add = [&](const JsonField& text) { compared.texts.push_back(text.string()); };
  const auto query = find_any(object, {"anchor", "query", "text1", "sentence1"});
  if (!query) throw Error(where + ": expected a text under anchor, query, text1 or sentence1, got none");
  compared.query = query->string();
  const auto texts = find_any(object, {"positive", "document", "text2", "sentence2", "documents"});
  if (!texts)
    throw Error(where +
                ": expected a text under positive, document, text2 or sentence2, or a list under "
                "documents, got none");
  for_each_value(*texts, add);
  const std::size_t positives = compared.texts.size();
  for (const char* name : {"negative", "negatives"}) {
    if (const auto negatives = object.find(name)) for_each_value(*negatives, add);
  }
  for (int i = 1;; ++i) {
    const auto negative = object.find(fmt::format("negative_{}", i));
    if (!negative) break;
    add(*negative);
  }
  if (const auto labels = find_any(object, {"score", "label", "labels"})) {
    for_each_value(*labels, [&](const JsonField& label) { compared.labels.push_back(label.number()); });
    if (compared.labels.size() != compared.texts.size()) {
      throw Error(fmt::format("{}: {}: expected a number for each text, {}, got {}", where, labels->path(),
                              compared.texts.size(), compared.labels.size()));
    }
  } else if (positives != 1) {
    throw Error(fmt::format("{}: labels: expected a number for each text, {}, got none", where, positives));
  }
  return compared;
}

// Reads the sentences of a CoNLL file, line by line.
class ConllReader {
 public:
  ConllReader(TaggedSentences& to, std::string word_prefix) : to_(to), word_prefix_(std::move(word_prefix)) {}

  void read(const fs::path& file) {
    to_.files.push_back(file);
    width_ = 0;
    to_.control_bytes +=
        for_each_line(file, [&](const std::string& line, std::int64_t number) { add(line, number); });
    end_sentence();
  }

 private:
  void add(const std::string& line, std::int64_t number) {
    const std::vector<std::string> columns = split(line, kSpace);
    if (columns.empty() || columns.front() == "-DOCSTART-") return end_sentence();
    if (sentence_.words.empty()) {
      sentence_.file = std::ssize(to_.files) - 1;
      sentence_.line = number;
    }
    const std::string where = fmt::format("{}:{}", to_.files.back().string(), number);
    if (columns.size() < 2) {
      throw Error(fmt::format("{}: expected a word and its tag, separated by a space or a tab, got \"{}\"",
                              where, line));
    }
    if (width_ == 0) width_ = columns.size();
    if (columns.size() != width_) {
      throw Error(
          fmt::format("{}: expected {} columns, as in the lines before, got {} (a line is a word, its tag "
                      "last)",
                      where, width_, columns.size()));
    }
    const std::string& word = columns.front();
    const bool prefixed = word.starts_with(word_prefix_) && word.size() > word_prefix_.size();
    sentence_.words.push_back(prefixed ? word.substr(word_prefix_.size()) : word);
    sentence_.tags.push_back(columns.back());
  }
  void end_sentence() {
    if (!sentence_.words.empty()) to_.entries.add(sentence_);
    sentence_ = {};
  }

  TaggedSentences& to_;
  std::string word_prefix_;
  TaggedWords sentence_;
  std::size_t width_ = 0;
};

}  // namespace

LabeledTexts read_labeled(const fs::path& path, const DataOptions& data, bool multi_label,
                          const fs::path& folder) {
  LabeledTexts read{.entries = SpilledRecords<LabeledText>(folder), .files = data::input_files(path)};
  for (std::size_t file = 0; file < read.files.size(); ++file) {
    const fs::path& name = read.files[file];
    const auto add = [&](LabeledText text, std::int64_t line) {
      if (is_empty_text(text.text)) {
        ++read.skipped;
        return;
      }
      text.file = static_cast<std::int64_t>(file);
      text.line = line;
      if (!multi_label && is_empty_text(text.labels.front()))
        throw Error(read.where(text) + ": expected a label, got none");
      read.entries.add(text);
    };
    read.control_bytes += read_file(
        name, data,
        [&](const std::vector<std::string>& row, const data::Table& table) {
          LabeledText text = parse_columns(row, table.where(), data, multi_label);
          table.check_width(row);
          add(std::move(text), table.line());
        },
        [&](const std::string& line, const std::string& where, std::int64_t number) {
          add(data.format == "jsonl" ? parse_object(line, where, data, multi_label)
                                     : parse_labeled(line, multi_label),
              number);
        });
  }
  if (read.size() == 0) throw Error(path.string() + ": expected labeled texts, got none");
  read.entries.finish();
  return read;
}

ComparedEntries read_compared(const fs::path& path, const DataOptions& data, bool scored,
                              const fs::path& folder) {
  ComparedEntries read{.entries = SpilledRecords<ComparedTexts>(folder), .files = data::input_files(path)};
  for (std::size_t file = 0; file < read.files.size(); ++file) {
    const auto add = [&](ComparedTexts compared, const std::string& where, std::int64_t line) {
      const bool blank = is_empty_text(compared.query) ||
                         std::any_of(compared.texts.begin(), compared.texts.end(), is_empty_text);
      if (blank || compared.texts.empty())
        throw Error(where + ": expected texts to compare, got " + (blank ? "a blank one" : "one alone"));
      compared.file = static_cast<std::int64_t>(file);
      compared.line = line;
      read.entries.add(compared);
    };
    read.control_bytes += read_file(
        read.files[file], data,
        [&](const std::vector<std::string>& row, const data::Table& table) {
          add(parse_compared(row, table.where(), scored), table.where(), table.line());
        },
        [&](const std::string& line, const std::string& where, std::int64_t number) {
          add(parse_compared(line, where), where, number);
        });
  }
  if (read.size() == 0) throw Error(path.string() + ": expected texts to compare, got none");
  read.entries.finish();
  return read;
}

LabeledTexts read_labeled_images(const fs::path& path, const DataOptions& data, const fs::path& folder) {
  LabeledTexts read{.entries = SpilledRecords<LabeledText>(folder)};
  if (data.format != "folders") {
    const LabeledTexts table = read_labeled(path, data, false, folder);
    read.files = table.files;
    for (std::int64_t i = 0; i < table.size(); ++i) {
      LabeledText image = table[i];
      image.text = (read.files[static_cast<std::size_t>(image.file)].parent_path() / image.text).string();
      read.entries.add(image);
    }
    read.entries.finish();
    return read;
  }
  std::error_code error;
  if (!fs::is_directory(path, error))
    throw Error(path.string() + ": expected a folder with a folder of images for each label, got " +
                (fs::exists(path, error) ? "a file (data.format = \"tsv\" reads tables of paths and labels)"
                                         : "nothing of this name"));
  for (const fs::path& file : data::input_files(path)) {
    const fs::path inside = file.lexically_relative(path);
    const bool in_folder = std::distance(inside.begin(), inside.end()) > 1;
    if (!in_folder || !is_named_as_image(file)) {
      ++read.skipped;
      continue;
    }
    read.files.push_back(file);
    read.entries.add({file.string(), "", {inside.begin()->string()}, std::ssize(read.files) - 1, 0});
  }
  if (read.size() == 0)
    throw Error(path.string() + ": expected a folder with a folder of images for each label, got none");
  read.entries.finish();
  return read;
}

TaggedSentences read_conll(const fs::path& path, const DataOptions& data, const fs::path& folder) {
  TaggedSentences read{.entries = SpilledRecords<TaggedWords>(folder)};
  ConllReader reader(read, data.word_prefix);
  for (const fs::path& file : data::input_files(path)) reader.read(file);
  if (read.size() == 0) throw Error(path.string() + ": expected sentences of tagged words, got none");
  read.entries.finish();
  return read;
}

namespace {

std::uint64_t key_of(std::string_view first, std::string_view second = {}) {
  std::string both(first);
  both.append(1, '\0').append(second);
  return std::hash<std::string>()(both);
}

// The numbers 0 .. size - 1, in groups of one key. Each group has the random place of its first example.
std::vector<std::int64_t> random_order(const std::vector<std::uint64_t>& keys, std::int64_t seed) {
  std::unordered_map<std::uint64_t, std::int64_t> first_of_key;
  std::vector<std::int64_t> order(keys.size()), first(keys.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = 0; i < keys.size(); ++i)
    first[i] = first_of_key.emplace(keys[i], static_cast<std::int64_t>(i)).first->second;
  const RandomStream random{static_cast<std::uint64_t>(seed), 0};
  const auto place = [&](std::int64_t i) {
    const std::int64_t group = first[static_cast<std::size_t>(i)];
    return std::tuple(random.word(static_cast<std::uint64_t>(group)), group, i);
  };
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return place(a) < place(b); });
  return order;
}

}  // namespace

std::uint64_t content_key(const LabeledText& text) { return key_of(text.text, text.pair); }

std::uint64_t content_key(const TaggedWords& sentence) {
  return key_of(fmt::format("{}", fmt::join(sentence.words, " ")));
}

std::uint64_t content_key(const AnsweredQuestion& question) {
  return key_of(question.question, question.context);
}

std::uint64_t content_key(const ComparedTexts& compared) { return key_of(compared.query); }

std::string repeated_examples(const std::vector<std::uint64_t>& keys, const char* what) {
  const std::size_t again = keys.size() - std::unordered_set(keys.begin(), keys.end()).size();
  return again == 0 ? ""
                    : fmt::format("{} of {} {} repeat another one; equal ones are kept in one set", again,
                                  keys.size(), what);
}

std::string trained_examples(const std::vector<std::uint64_t>& train,
                             const std::vector<std::uint64_t>& held_out, const fs::path& file,
                             const char* what) {
  const std::unordered_set<std::uint64_t> trained(train.begin(), train.end());
  const auto both = std::count_if(held_out.begin(), held_out.end(),
                                  [&](std::uint64_t key) { return trained.contains(key); });
  return both == 0 ? ""
                   : fmt::format(
                         "warning: {}: {} of {} {} are in the training set, too, so that scores on them "
                         "say little",
                         file.string(), both, held_out.size(), what);
}

Folds split_examples(const std::vector<std::uint64_t>& keys, const DataOptions& data) {
  const auto size = static_cast<std::int64_t>(keys.size());
  const std::vector<std::int64_t> order = random_order(keys, data.split_seed);
  const auto key = [&](std::int64_t example) { return keys[static_cast<std::size_t>(example)]; };
  Folds folds;
  const bool test_file = !data.test.empty(), dev_file = !data.dev.empty();
  std::vector<std::int64_t> rest;
  for (std::int64_t i = 0, group = 0; i < size; ++i) {
    const std::int64_t example = order[static_cast<std::size_t>(i)];
    if (i > 0 && key(example) != key(order[static_cast<std::size_t>(i - 1)])) group = i;
    const bool test =
        !test_file && (data.folds > 0 ? group % data.folds == data.fold : group < data.test_size);
    (test ? folds.test : rest).push_back(example);
  }
  auto dev = std::min(dev_file ? 0 : data.dev_size, std::ssize(rest));
  while (dev > 0 && dev < std::ssize(rest) &&
         key(rest[static_cast<std::size_t>(dev)]) == key(rest[static_cast<std::size_t>(dev - 1)]))
    ++dev;
  folds.dev.assign(rest.begin(), rest.begin() + dev);
  folds.train.assign(rest.begin() + dev, rest.end());
  if (folds.train.empty()) {
    throw Error(
        fmt::format("data.dev_size, data.test_size: expected fewer than the {} examples together, got all of "
                    "them",
                    size));
  }
  for (auto* part : {&folds.train, &folds.dev, &folds.test}) std::sort(part->begin(), part->end());
  return folds;
}

}  // namespace heed
