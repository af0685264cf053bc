// Finds the best spans over the windows of a context.
#include "heed/tasks/answer.h"

#include <algorithm>

#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
#include "tasks/characters.h"
#include "tasks/scores.h"

namespace heed {
namespace {

// Returns the softmax of the start or end logits over the first token and the context's tokens; 0 elsewhere.
std::vector<double> side_probabilities(std::span<const float> logits, std::size_t side,
                                       const Encoding& encoding) {
  std::vector<float> seen;
  std::vector<std::size_t> places;
  for (std::size_t t = 0; t < encoding.ids.size(); ++t) {
    if (t > 0 && encoding.sequence_ids[t] != 1) continue;
    seen.push_back(logits[2 * t + side]);
    places.push_back(t);
  }
  const std::vector<double> scores = tasks::softmax(seen);
  std::vector<double> probabilities(encoding.ids.size(), 0.0);
  for (std::size_t i = 0; i < places.size(); ++i) probabilities[places[i]] = scores[i];
  return probabilities;
}

// Extends a span to whole words, because tokens can begin and end inside words.
Answer whole_words(const tasks::Characters& context, double score, std::int64_t start, std::int64_t end) {
  while (start > 0 && start < end && context.in_word(start) && context.in_word(start - 1)) --start;
  while (end < context.count() && end > start && context.in_word(end - 1) && context.in_word(end)) ++end;
  return {context.text(start, end), score, start, end};
}

// The candidates found for a question so far.
struct Found {
  std::vector<Answer> answers;
  double null_score = 1.0;  // minimum over the windows
};

void add_window(Found& found, const tasks::Characters& context, const Encoding& encoding,
                std::span<const float> logits, const AnswerOptions& options) {
  const std::vector<double> starts = side_probabilities(logits, 0, encoding),
                            ends = side_probabilities(logits, 1, encoding);
  found.null_score = std::min(found.null_score, starts[0] * ends[0]);
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  std::vector<double> scores;
  for (std::size_t first = 0; first < starts.size(); ++first) {
    if (encoding.sequence_ids[first] != 1) continue;
    const std::size_t limit =
        std::min(starts.size(), first + static_cast<std::size_t>(options.max_answer_tokens));
    for (std::size_t last = first; last < limit && encoding.sequence_ids[last] == 1; ++last) {
      spans.emplace_back(first, last);
      scores.push_back(starts[first] * ends[last]);
    }
  }
  for (const std::size_t best : tasks::largest(scores, static_cast<std::size_t>(options.top_k))) {
    const auto [first, last] = spans[best];
    found.answers.push_back(
        whole_words(context, scores[best], encoding.offsets[first].first, encoding.offsets[last].second));
  }
}

// Returns the best answers of all windows. A span found by two windows (or by two tokens of a word) counts
// once.
std::vector<Answer> best_answers(Found found, const AnswerOptions& options) {
  std::stable_sort(found.answers.begin(), found.answers.end(),
                   [](const Answer& a, const Answer& b) { return a.score > b.score; });
  std::vector<Answer> best;
  for (Answer& one : found.answers) {
    const auto same = [&](const Answer& other) { return other.start == one.start && other.end == one.end; };
    if (std::none_of(best.begin(), best.end(), same)) best.push_back(std::move(one));
  }
  if (options.impossible) {
    const auto worse = [&](const Answer& a) { return a.score * options.null_factor < found.null_score; };
    best.insert(std::find_if(best.begin(), best.end(), worse), {"", found.null_score, 0, 0});
  }
  if (best.size() > static_cast<std::size_t>(options.top_k))
    best.resize(static_cast<std::size_t>(options.top_k));
  return best;
}

// Returns why a question cannot be answered, or an empty string.
std::string invalid_reason(const Question& question, std::int64_t asked, std::int64_t room,
                           std::int64_t longest) {
  if (is_blank(question.question)) return "expected a question, got an empty one";
  if (is_blank(question.context)) return "expected a context, got an empty one";
  if (room >= 2) return "";
  return "expected a question that leaves room for a context among " + std::to_string(longest) +
         " tokens, got one of " + std::to_string(asked);
}

// Returns the windows of the context, each beginning with the question; empty if the question is refused.
std::vector<Encoding> windows_of(const Tokenizer& tokenizer, const Question& question, std::int64_t longest,
                                 const AnswerOptions& options, std::size_t index) {
  const std::int64_t asked = tokenizer.encode(question.question, false).size();
  const std::int64_t room = longest - tokenizer.added_tokens(true) - asked;
  if (const std::string fault = invalid_reason(question, asked, room, longest); !fault.empty()) {
    options.task.fail("answer", index, fault);
    return {};
  }
  Truncation truncation;
  truncation.max_length = longest;
  truncation.strategy = Truncation::Strategy::only_second;
  truncation.stride = std::min(options.stride, room / 2);
  return tokenizer.encode_windows(question.question, question.context, truncation);
}

}  // namespace

std::vector<std::vector<Answer>> answer(const EncoderModel& model, const Tokenizer& tokenizer,
                                        std::span<const Question> questions, const AnswerOptions& options) {
  tasks::require_head(model, EncoderHead::span, "answer");
  const std::int64_t longest = std::min(longest_input(model, tokenizer), options.max_input_tokens);
  std::vector<Encoding> windows;
  std::vector<std::size_t> question_of;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    for (Encoding& window : windows_of(tokenizer, questions[i], longest, options, i)) {
      windows.push_back(std::move(window));
      question_of.push_back(i);
    }
  }
  std::vector<std::vector<float>> logits(windows.size());
  encode_batches(
      model, windows, options.task, [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
        Context context;
        const std::vector<float> all = model.predict(hidden, {}, context).to_vector<float>();  // [B, T, 2]
        const std::size_t width = all.size() / chosen.size();
        for (std::size_t b = 0; b < chosen.size(); ++b) {
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(b * width);
          logits[chosen[b]].assign(begin, begin + static_cast<std::ptrdiff_t>(width));
        }
      });
  std::vector<Found> found(questions.size());
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const tasks::Characters context(questions[question_of[w]].context);
    add_window(found[question_of[w]], context, windows[w], logits[w], options);
  }
  std::vector<std::vector<Answer>> answers(questions.size());
  std::vector<bool> asked(questions.size(), false);
  for (const std::size_t i : question_of) asked[i] = true;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (asked[i]) answers[i] = best_answers(std::move(found[i]), options);
  }
  return answers;
}

}  // namespace heed
