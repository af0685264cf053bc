// Reads SQuAD's JSON article by article, without a tree of the file in memory.
#include <fmt/format.h>

#include "core/json_field.h"
#include "core/stop_scope.h"
#include "core/utf8.h"
#include "data/labeled_data.h"
#include "data/lines.h"
#include "heed/error.h"
#include "heed/files/file.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

// Throws Error unless the answer begins at its character of the context.
void check_start(const JsonField& answer, const std::string& text, std::int64_t start,
                 const std::string& context) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < start && at < context.size(); ++i) at += utf8_length(context[at]);
  if (context.compare(at, text.size(), text) == 0) return;
  answer.at("answer_start")
      .fail(fmt::format("the character of the context at which {} begins", json_quoted(text)));
}

AnsweredQuestion question_in(const JsonField& field, const std::string& context) {
  AnsweredQuestion question{field.at("question").string(), {}, {}, 0};
  const JsonField answers = field.at("answers");
  for (std::size_t i = 0; i < answers.array_size(); ++i) {
    const JsonField answer = answers.at(i);
    const std::string& text = answer.at("text").string();
    const std::int64_t start = answer.at("answer_start").integer(0, INT64_MAX);
    check_start(answer, text, start, context);
    if (i == 0) question.start = start;
    question.answers.push_back(text);
  }
  return question;
}

void read_article(const JsonField& article, AnsweredQuestions& to) {
  const JsonField paragraphs = article.at("paragraphs");
  for (std::size_t i = 0; i < paragraphs.array_size(); ++i) {
    const JsonField paragraph = paragraphs.at(i), asked = paragraph.at("qas");
    const std::string& context = paragraph.at("context").string();
    std::vector<AnsweredQuestion> questions;
    for (std::size_t q = 0; q < asked.array_size(); ++q) {
      AnsweredQuestion question = question_in(asked.at(q), context);
      if (!question.answers.empty()) questions.push_back(std::move(question));  // SQuAD 2 has others
    }
    if (!questions.empty()) to.add(context, questions);
  }
}

void read_squad_file(const fs::path& path, AnsweredQuestions& to) {
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  JsonReader json(path.string(), {reinterpret_cast<const char*>(file->data()), file->bytes()});
  bool found = false;
  std::string key;
  for (json.begin_object(); json.next_key(key);) {
    if (key != "data" || found) {
      if (found && key == "data") json.fail("every key once", "\"data\" twice");
      json.skip();
      continue;
    }
    found = true;
    std::size_t articles = 0;
    for (json.begin_array(); json.next_element(); ++articles) {
      throw_if_stopped();
      const Json article = json.value();
      read_article(JsonField(article, path.string(), fmt::format("data.{}", articles)), to);
    }
  }
  if (!found) throw Error(path.string() + ": expected SQuAD's JSON (data[].paragraphs[].qas[]), got no data");
  json.finish();
}

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
  for (const fs::path& file : data::input_files(path)) read_squad_file(file, questions);
  if (questions.size() == 0) throw Error(path.string() + ": expected questions with answers, got none");
  questions.finish();
  return questions;
}

}  // namespace heed
