// The answers task: the first and the last token of an answer in its context.
#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "heed/score/entities.h"
#include "heed/text/unicode.h"
#include "models/labels.h"
#include "train/labelled_task.h"

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
    : LabelledTask(recipe, options) {
  const std::vector<AnsweredQuestion> all = read_squad(recipe.data.train);
  const Folds folds = split_examples(static_cast<std::int64_t>(all.size()), recipe.data);
  const std::vector<AnsweredQuestion> train = chosen(all, folds.train);
  dev_ = recipe.data.dev.empty() ? chosen(all, folds.dev) : read_squad(recipe.data.dev);
  test_ = recipe.data.test.empty() ? chosen(all, folds.test) : read_squad(recipe.data.test);
  message(fmt::format("{} questions to train on, {} for development, {} for the test", train.size(),
                      dev_.size(), test_.size()));
  const SentenceSource texts = [&train, next = std::size_t{0}, second = false](std::string& text) mutable {
    if (next == train.size()) return false;
    text = second ? train[next].context : train[next].question;
    next += second;
    second = !second;
    return true;
  };
  load_or_make(checkpoint, texts, "ForQuestionAnswering", "{}");
  std::int64_t dropped = 0;
  Examples examples = tokenize(train, dropped);
  if (dropped > 0) message(fmt::format("{} windows without the answer are not trained on", dropped));
  begin_training(std::move(examples));
}

LabelledTask::Examples AnswersTask::tokenize(const std::vector<AnsweredQuestion>& questions,
                                             std::int64_t& dropped) const {
  const Truncation truncation{
      .max_length = longest(), .strategy = Truncation::Strategy::only_second, .stride = recipe_.task.stride};
  Examples examples;
  for (const AnsweredQuestion& question : questions) {
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
      examples.push_back(std::move(example));
    }
  }
  if (examples.empty()) throw Error("answers: expected windows that contain answers, got none");
  return examples;
}

std::optional<Evaluation> AnswersTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

Evaluation AnswersTask::evaluate(const std::vector<AnsweredQuestion>& questions) const {
  std::int64_t dropped = 0;  // windows without the answer have no loss
  const Examples examples = tokenize(questions, dropped);
  double sum = 0;
  for_each_batch(examples, [&](const LabelledBatch& batch) {
    Context context;
    const Tensor logits = model_->predict(model_->encode(batch.inputs, context), {}, context);
    sum += span_loss(logits, batch.labels, {.reduction = Reduction::sum}).item();
  });
  Communicator& world = processes_of(options_);
  const auto [begin, end] = part_of(std::ssize(questions), world.rank(), world.size());
  const std::vector<AnsweredQuestion> own(questions.begin() + begin, questions.begin() + end);
  std::vector<Question> asked;
  for (const AnsweredQuestion& question : own) asked.push_back({question.question, question.context});
  AnswerOptions options;
  options.max_input_tokens = longest();
  options.stride = recipe_.task.stride;
  options.max_answer_tokens = 30;
  const auto answers = answer(*model_, *tokenizer_, asked, options);
  double exact = 0, f1 = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const AnswerScore score = answer_score(answers[i].empty() ? "" : answers[i].front().text, own[i].answers);
    exact += score.exact;
    f1 += score.f1;
  }
  const auto count = static_cast<double>(questions.size());
  const std::vector<double> total = world.sum({sum, exact, f1});
  return {total[0] / static_cast<double>(examples.size()),
          {{"exact", 100 * total[1] / count}, {"f1", 100 * total[2] / count}}};
}

}  // namespace heed
