// Reads SQuAD's JSON value by value, without a tree of the file in memory.
#include <fmt/format.h>

#include <optional>
#include <set>

#include "core/json_reader.h"
#include "data/input_files.h"
#include "data/labelled_data.h"
#include "heed/error.h"
#include "heed/files/file.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormat = "SQuAD's JSON (data[].paragraphs[].qas[])";

struct SquadAnswer {
  std::string text;
  std::int64_t start = 0;
};

struct SquadQuestion {
  std::string text;
  std::vector<SquadAnswer> answers;
};

// Throws Error unless the answer begins at its character of the context.
void check_start(const SquadAnswer& answer, const std::string& context) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < answer.start && at < context.size(); ++i) {
    for (++at; at < context.size() && (static_cast<unsigned char>(context[at]) & 0xC0u) == 0x80u;) ++at;
  }
  if (answer.start >= 0 && context.compare(at, answer.text.size(), answer.text) == 0) return;
  throw Error(
      fmt::format("answer_start: expected the character of the context at which \"{}\" begins, got {}",
                  answer.text, answer.start));
}

class SquadReader {
 public:
  SquadReader(const fs::path& path, AnsweredQuestions& to)
      : path_(path), mapped_(MappedFile::open(path)), json_(path.string(), text_of(*mapped_)), to_(to) {}

  void read() {
    const bool data = members([&](const std::string& key) {
      if (key != "data") return false;
      for (json_.begin_array(); json_.next_element();) article();
      return true;
    });
    if (!data) json_.fail(kFormat, "no data");
    json_.finish();
  }

 private:
  static std::string_view text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.data()), file.bytes()};
  }

  // Calls `handle` for every key of an object; it returns whether it has read the value. Returns whether any
  // was read.
  template <class Handle>
  bool members(const Handle& handle) {
    bool any = false;
    std::set<std::string> seen;
    std::string key;
    for (json_.begin_object(); json_.next_key(key);) {
      if (!seen.insert(key).second) json_.fail("every key once", '"' + key + "\" twice");
      if (handle(key)) {
        any = true;
      } else {
        json_.skip();
      }
    }
    return any;
  }

  void article() {
    const bool paragraphs = members([&](const std::string& key) {
      if (key != "paragraphs") return false;
      for (json_.begin_array(); json_.next_element();) paragraph();
      return true;
    });
    if (!paragraphs) json_.fail(kFormat, "an article without paragraphs");
  }

  void paragraph() {
    std::optional<std::string> context;  // may come after the questions
    std::optional<std::vector<SquadQuestion>> asked;
    members([&](const std::string& key) {
      if (key == "context") return context = json_.string(), true;
      if (key != "qas") return false;
      asked.emplace();
      for (json_.begin_array(); json_.next_element();) asked->push_back(question());
      return true;
    });
    if (!context || !asked)
      json_.fail(kFormat, !context ? "a paragraph without a context" : "a paragraph without qas");
    add(*context, *asked);
  }

  SquadQuestion question() {
    std::optional<std::string> text;
    std::optional<std::vector<SquadAnswer>> answers;
    members([&](const std::string& key) {
      if (key == "question") return text = json_.string(), true;
      if (key != "answers") return false;
      answers.emplace();
      for (json_.begin_array(); json_.next_element();) answers->push_back(answer());
      return true;
    });
    if (!text || !answers)
      json_.fail(kFormat, !text ? "an entry without a question" : "a question without answers");
    return {std::move(*text), std::move(*answers)};
  }

  SquadAnswer answer() {
    std::optional<std::string> text;
    std::optional<std::int64_t> start;
    members([&](const std::string& key) {
      if (key == "text") return text = json_.string(), true;
      if (key != "answer_start") return false;
      const std::string_view number = json_.number();
      start = json_integer(number);
      if (!start) json_.fail("the number of a character", number);
      return true;
    });
    if (!text || !start)
      json_.fail(kFormat, !text ? "an answer without text" : "an answer without answer_start");
    return {std::move(*text), *start};
  }

  void add(const std::string& context, std::vector<SquadQuestion>& asked) {
    std::vector<AnsweredQuestion> questions;
    for (SquadQuestion& one : asked) {
      if (one.answers.empty()) continue;  // SQuAD 2's impossible questions
      ++number_;
      AnsweredQuestion question{std::move(one.text), {}, {}, one.answers.front().start};
      for (SquadAnswer& right : one.answers) {
        try {
          check_start(right, context);
        } catch (const Error& error) {
          throw Error(fmt::format("{}: question {}: {}", path_.string(), number_, error.what()));
        }
        question.answers.push_back(std::move(right.text));
      }
      questions.push_back(std::move(question));
    }
    if (!questions.empty()) to_.add(context, questions);
  }

  fs::path path_;
  std::shared_ptr<MappedFile> mapped_;
  JsonReader json_;
  AnsweredQuestions& to_;
  std::int64_t number_ = 0;  // of the questions with answers in this file
};

}  // namespace

void AnsweredQuestions::add(const std::string& context, const std::vector<AnsweredQuestion>& questions) {
  contexts_.add({context});
  for (const AnsweredQuestion& q : questions)
    questions_.add({q.question, contexts_.size() - 1, q.answers, q.start});
}

void AnsweredQuestions::finish() {
  contexts_.finish();
  questions_.finish();
}

AnsweredQuestion AnsweredQuestions::operator[](std::int64_t i) const {
  Question question = questions_[i];
  return {std::move(question.text), contexts_[question.context].text, std::move(question.answers),
          question.start};
}

AnsweredQuestions read_squad(const fs::path& path, const fs::path& folder) {
  AnsweredQuestions questions(folder);
  for (const fs::path& file : data::input_files(path)) SquadReader(file, questions).read();
  if (questions.size() == 0) throw Error(path.string() + ": expected questions with answers, got none");
  questions.finish();
  return questions;
}

}  // namespace heed
