// The answers task: the first and the last token of an answer in its context.
#include <fmt/format.h>

#include <algorithm>

#include "core/stop_scope.h"
#include "data/lines.h"
#include "heed/error.h"
#include "heed/score/labels.h"
#include "heed/text/unicode.h"
#include "models/labels.h"
#include "train/tasks/labeled_task.h"
#include "train/tasks/predictions.h"

namespace heed {
namespace {

// The first and the last token of characters start .. end - 1 of the context; both 0, the first token, if the
// window does not contain all of them.
std::vector<std::int64_t> tokens_of(const Encoding& window, std::int64_t start, std::int64_t end) {
  std::int64_t first = -1, last = -1;
  for (std::int64_t i = 0; i < window.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (window.sequence_ids[at] != 1) continue;
    const auto [token_start, token_end] = window.offsets[at];
    if (token_start <= start && start < token_end) first = i;
    if (token_start < end && end <= token_end) last = i;
  }
  if (first < 0 || last < first) return {0, 0};
  return {first, last};
}

}  // namespace

AnswersTask::AnswersTask(const Recipe& recipe, const TrainOptions& options,
                         const std::filesystem::path& checkpoint)
    : LabeledTask(recipe, options) {
  LabeledParts<AnsweredQuestions> parts = read_parts(
      recipe.data, "questions", [this](const std::string& text) { message(text); },
      [&](const std::filesystem::path& path) { return read_squad(path, options.output); });
  const ChosenRecords<AnsweredQuestions>& train = parts.train;
  dev_ = std::move(parts.dev);
  test_ = std::move(parts.test);
  message(fmt::format("{} questions to train on, {} for development, {} for the test", train.size(),
                      dev_.size(), test_.size()));
  const SentenceSource texts = [&train, next = std::int64_t{0}, second = false](std::string& text) mutable {
    if (next == train.size()) return false;
    const AnsweredQuestion asked = train[next];
    text = second ? asked.context : asked.question;
    next += second;
    second = !second;
    return true;
  };
  load_or_make(checkpoint, texts, "ForQuestionAnswering", "{}");
  std::int64_t dropped = 0;
  Examples examples = train.empty() ? Examples() : tokenize(train, dropped);
  DataCounts counts("questions", "tokens", static_cast<double>(longest()));
  count(train, "training", counts);
  count(dev_, "development", counts);
  count(test_, "test", counts);
  data_ = counts.finish();
  if (dropped > 0) message(fmt::format("{} windows without the answer are not trained on", dropped));
  begin_training(std::move(examples));
}

LabeledTask::Examples AnswersTask::tokenize(const ChosenRecords<AnsweredQuestions>& questions,
                                            std::int64_t& dropped) const {
  const Truncation truncation{
      .max_length = longest(), .strategy = Truncation::Strategy::only_second, .stride = recipe_.task.stride};
  Examples examples(options_.output);
  for (std::int64_t i = 0; i < questions.size(); ++i) {
    throw_if_stopped();
    const AnsweredQuestion question = questions[i];
    const auto length = static_cast<std::int64_t>(count_characters(question.answers.front()));
    for (const Encoding& window :
         tokenizer_->encode_windows(question.question, question.context, truncation)) {
      Example example{{window.ids.begin(), window.ids.end()},
                      {window.type_ids.begin(), window.type_ids.end()},
                      tokens_of(window, question.start, question.start + length),
                      {}};
      // A window without the answer would teach "no answer", which SQuAD 1.1 does not have.
      if (example.labels.front() == 0) {
        ++dropped;
        continue;
      }
      examples.add(example);
    }
  }
  examples.finish();
  if (examples.empty()) throw Error("answers: expected windows that contain answers, got none");
  return examples;
}

// A context that is longer than the model is read in windows: nothing is truncated.
void AnswersTask::count(const ChosenRecords<AnsweredQuestions>& questions, const char* set,
                        DataCounts& counts) const {
  counts.begin(set);
  for (std::int64_t i = 0; i < questions.size(); ++i) {
    throw_if_stopped();
    const AnsweredQuestion question = questions[i];
    counts.add(content_key(question));
    counts.add_length(
        static_cast<double>(tokenizer_->encode_pair(question.question, question.context).size()));
    counts.set().replaced +=
        data::has_lost_characters(question.question) || data::has_lost_characters(question.context);
  }
}

std::optional<Evaluation> AnswersTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

Evaluation AnswersTask::evaluate(const ChosenRecords<AnsweredQuestions>& questions) const {
  std::int64_t dropped = 0;  // windows without the answer have no loss
  const Examples examples = tokenize(questions, dropped);
  double sum = 0;
  for_each_batch(examples, [&](const LabeledBatch& batch) {
    Context context;
    const Tensor logits = model_->predict(model_->encode(batch.inputs, context), {}, context);
    sum += span_loss(logits, batch.labels, {.reduction = Reduction::sum}).item();
  });
  Communicator& world = processes_of(options_);
  const auto [begin, end] = part_of(questions.size(), world.rank(), world.size());
  AnswerOptions options;
  options.max_input_tokens = longest();
  options.stride = recipe_.task.stride;
  double exact = 0, f1 = 0;
  std::vector<Prediction> predictions;
  constexpr std::int64_t kAtOnce = 1024;
  for (std::int64_t from = begin; from < end; from += kAtOnce) {
    std::vector<Question> asked;
    std::vector<std::vector<std::string>> right;
    for (std::int64_t i = from; i < std::min(end, from + kAtOnce); ++i) {
      AnsweredQuestion question = questions[i];
      asked.push_back({std::move(question.question), std::move(question.context)});
      right.push_back(std::move(question.answers));
    }
    const auto answers = answer(*model_, *tokenizer_, asked, options);
    for (std::size_t i = 0; i < right.size(); ++i) {
      const std::string found = answers[i].empty() ? "" : answers[i].front().text;
      predictions.push_back({.number = from + static_cast<std::int64_t>(i),
                             .text = asked[i].question,
                             .right = right[i].front(),
                             .predicted = found});
      const AnswerScore score = answer_score(found, right[i]);
      exact += score.exact;
      f1 += score.f1;
    }
  }
  const auto count = static_cast<double>(questions.size());
  const std::vector<double> total = world.sum({sum, exact, f1});
  return {total[0] / static_cast<double>(examples.size()),
          {{"exact", 100 * total[1] / count}, {"f1", 100 * total[2] / count}},
          gather_predictions(world, std::move(predictions))};
}

}  // namespace heed
