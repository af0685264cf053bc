// Reads labelled texts.
#include "train/labelled_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/input_file.h"
#include "core/json_document.h"
#include "heed/error.h"
#include "heed/io/file.h"
#include "heed/io/json.h"
#include "heed/random.h"
#include "heed/text/unicode.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSpace = " \t\r";

// The lines of a file, without their ends. Throws Error for text that is not UTF-8.
std::vector<std::string> lines_of(const fs::path& file) {
  const std::string text = read_file(file, file_limits::kText);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::size_t replaced = 0;
    replace_invalid_utf8(line, &replaced);
    if (replaced > 0) {
      throw Error(fmt::format("{}:{}: expected UTF-8, got other bytes (convert the file)", file.string(),
                              lines.size() + 1));
    }
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> split(const std::string& text, const char* separators, bool join_repeated) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin || !join_repeated) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string> labels_of(const std::string& text, const Recipe& recipe) {
  if (recipe.task.problem != "multi-label") return {text};
  return split(text, ",", true);
}

LabelledText parse_columns(const std::string& line, const std::string& where, const Recipe& recipe) {
  const std::vector<std::string> columns = split(line, "\t", false);
  const Recipe::Data& data = recipe.data;
  const auto column = [&](std::int64_t number) -> const std::string& {
    if (number <= static_cast<std::int64_t>(columns.size()))
      return columns[static_cast<std::size_t>(number - 1)];
    throw Error(
        fmt::format("{}: expected {} columns separated by tabs, got {} (data.text_column, data.label_column "
                    "and data.pair_column choose them)",
                    where, number, columns.size()));
  };
  return {column(data.text_column), data.pair_column > 0 ? column(data.pair_column) : "",
          labels_of(column(data.label_column), recipe), 0};
}

LabelledText parse_object(const std::string& line, const std::string& where, const Recipe& recipe) {
  const nlohmann::ordered_json json = parse_json(line, where);
  const auto text = [&](const std::string& key) {
    if (json.is_object() && json.contains(key) && json[key].is_string()) return json[key].get<std::string>();
    throw Error(fmt::format("{}: {}: expected a text, got {}", where, key,
                            json.is_object() && json.contains(key) ? json[key].dump() : "no such key"));
  };
  LabelledText labelled{
      text(recipe.data.text_key), recipe.data.pair_key.empty() ? "" : text(recipe.data.pair_key), {}, 0};
  const auto found = json.find(recipe.data.label_key);
  if (found == json.end())
    throw Error(fmt::format("{}: {}: expected a label, got none", where, recipe.data.label_key));
  const auto add = [&](const nlohmann::ordered_json& label) {
    labelled.labels.push_back(label.is_string() ? label.get<std::string>() : label.dump());
  };
  if (found->is_array()) {
    for (const auto& label : *found) add(label);
  } else {
    add(*found);
  }
  return labelled;
}

LabelledText parse_labelled(const std::string& line, const Recipe& recipe) {
  const std::size_t begin = line.find_first_not_of(kSpace), end = line.find_first_of(kSpace, begin);
  const std::size_t text = end == std::string::npos ? end : line.find_first_not_of(kSpace, end);
  return {text == std::string::npos ? "" : line.substr(text), "",
          labels_of(line.substr(begin, end - begin), recipe), 0};
}

// Where the answer begins in the context, which must contain it there.
std::int64_t start_of(const nlohmann::ordered_json& answer, const std::string& context) {
  const std::string& text = answer.at("text").get_ref<const std::string&>();
  const std::int64_t start = answer.at("answer_start");
  std::size_t at = 0;
  for (std::int64_t i = 0; i < start && at < context.size(); ++i) {
    for (++at; at < context.size() && (static_cast<unsigned char>(context[at]) & 0xC0u) == 0x80u;) ++at;
  }
  if (start >= 0 && context.compare(at, text.size(), text) == 0) return start;
  throw Error(fmt::format(
      "answer_start: expected the character of the context at which \"{}\" begins, got {}", text, start));
}

}  // namespace

LabelledTexts read_labelled(const fs::path& file, const Recipe& recipe) {
  const std::string& format = recipe.data.format;
  LabelledTexts read;
  const std::vector<std::string> lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(kSpace) == std::string::npos) continue;
    const std::string where = fmt::format("{}:{}", file.string(), i + 1);
    LabelledText text = format == "jsonl"      ? parse_object(lines[i], where, recipe)
                        : format == "labelled" ? parse_labelled(lines[i], recipe)
                                               : parse_columns(lines[i], where, recipe);
    if (text.text.find_first_not_of(kSpace) == std::string::npos) {
      ++read.skipped;
      continue;
    }
    text.line = static_cast<std::int64_t>(i) + 1;
    read.texts.push_back(std::move(text));
  }
  if (read.texts.empty()) throw Error(file.string() + ": expected labelled texts, got none");
  return read;
}

std::vector<TaggedWords> read_conll(const fs::path& file, const Recipe::Data& data) {
  std::vector<TaggedWords> sentences;
  TaggedWords sentence;
  std::size_t width = 0;
  const auto end_sentence = [&] {
    if (!sentence.words.empty()) sentences.push_back(std::move(sentence));
    sentence = {};
  };
  const std::vector<std::string> lines = lines_of(file);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> columns = split(lines[i], kSpace, true);
    if (columns.empty() || columns.front() == "-DOCSTART-") {
      end_sentence();
      continue;
    }
    if (columns.size() < 2) {
      throw Error(fmt::format("{}:{}: expected a word and its tag, separated by a space or a tab, got \"{}\"",
                              file.string(), i + 1, lines[i]));
    }
    if (width == 0) width = columns.size();
    if (columns.size() != width) {
      throw Error(
          fmt::format("{}:{}: expected {} columns, as in the lines before, got {} (a line is a word, its tag "
                      "last)",
                      file.string(), i + 1, width, columns.size()));
    }
    std::string word = columns.front();
    if (!data.word_prefix.empty() && word.starts_with(data.word_prefix) &&
        word.size() > data.word_prefix.size())
      word = word.substr(data.word_prefix.size());
    sentence.words.push_back(std::move(word));
    sentence.tags.push_back(columns.back());
  }
  end_sentence();
  if (sentences.empty()) throw Error(file.string() + ": expected sentences of tagged words, got none");
  return sentences;
}

std::vector<AnsweredQuestion> read_squad(const fs::path& file) {
  const nlohmann::ordered_json json = parse_json(read_file(file, file_limits::kText), file.string());
  std::vector<AnsweredQuestion> questions;
  try {
    for (const auto& article : json.at("data")) {
      for (const auto& paragraph : article.at("paragraphs")) {
        for (const auto& asked : paragraph.at("qas")) {
          AnsweredQuestion question{asked.at("question"), paragraph.at("context"), {}, 0};
          for (const auto& answer : asked.at("answers")) {
            const std::int64_t start = start_of(answer, question.context);
            if (question.answers.empty()) question.start = start;
            question.answers.push_back(answer.at("text"));
          }
          // SQuAD 2's impossible questions have none.
          if (!question.answers.empty()) questions.push_back(std::move(question));
        }
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}: expected SQuAD's JSON (data[].paragraphs[].qas[]), got question {}: {}",
                            file.string(), questions.size() + 1, error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: question {}: {}", file.string(), questions.size() + 1, error.what()));
  }
  if (questions.empty()) throw Error(file.string() + ": expected questions with answers, got none");
  return questions;
}

Folds split_examples(std::int64_t size, const Recipe::Data& data) {
  // Each example has a random key; the order of the keys decides.
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const RandomStream keys{static_cast<std::uint64_t>(data.split_seed), 0};
  const auto key = [&](std::int64_t i) { return std::pair(keys.word(static_cast<std::uint64_t>(i)), i); };
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
  Folds folds;
  const bool test_file = !data.test.empty(), dev_file = !data.dev.empty();
  std::vector<std::int64_t> rest;
  for (std::int64_t i = 0; i < size; ++i) {
    const bool test = !test_file && (data.folds > 0 ? i % data.folds == data.fold : i < data.test_size);
    (test ? folds.test : rest).push_back(order[static_cast<std::size_t>(i)]);
  }
  const auto dev = std::min(dev_file ? 0 : data.dev_size, static_cast<std::int64_t>(rest.size()));
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
