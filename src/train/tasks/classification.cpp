// The classification task: labels of whole texts or pairs.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "core/stop_scope.h"
#include "heed/error.h"
#include "heed/ops/activation.h"
#include "heed/ops/softmax.h"
#include "heed/score/labels.h"
#include "models/labels.h"
#include "train/tasks/labeled_task.h"
#include "train/tasks/predictions.h"

namespace heed {
namespace {

const char* problem_name(LabelProblem problem) {
  if (problem == LabelProblem::regression) return "regression";
  return problem == LabelProblem::multi_label ? "multi_label_classification" : "single_label_classification";
}

SentenceSource texts_of(const ChosenRecords<LabeledTexts>& texts) {
  return [&texts, next = std::int64_t{0}, second = false](std::string& text) mutable {
    while (next < texts.size()) {
      const LabeledText labeled = texts[next];
      text = second ? labeled.pair : labeled.text;
      next += second;
      second = !second;
      if (!text.empty()) return true;
    }
    return false;
  };
}

// What a prediction shows of an example; nothing is predicted of those that are trained on.
std::string text_of(const LabeledText& text, std::string_view set) {
  if (set == "training") return "";
  return text.pair.empty() ? text.text : text.text + " | " + text.pair;
}

float value_of(const std::string& label, const std::string& where, const char* hint) {
  float value = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  if (error == std::errc() && end == label.data() + label.size()) return value;
  throw Error(fmt::format("{}: expected a number to predict (task.problem is \"regression\"), got \"{}\"{}",
                          where, label, hint));
}

}  // namespace

ClassificationTask::ClassificationTask(const Recipe& recipe, const TrainOptions& options,
                                       const std::filesystem::path& checkpoint)
    : LabeledTask(recipe, options), problem_(problem_of(recipe)) {
  std::int64_t skipped = 0;
  const auto [all, train, dev, test] = read_parts(
      recipe.data, "texts", [this](const std::string& text) { message(text); },
      [&](const std::filesystem::path& path) {
        LabeledTexts found =
            read_labeled(path, recipe.data, recipe.task.problem == "multi-label", options.output);
        skipped += found.skipped;
        report_control_bytes(path, found.control_bytes);
        return found;
      });
  message(fmt::format("{} texts to train on, {} for development, {} for the test{}", train.size(), dev.size(),
                      test.size(), skipped > 0 ? fmt::format(", {} without text skipped", skipped) : ""));
  const bool regression = problem_ == LabelProblem::regression;
  std::vector<std::string> names{"LABEL_0"};
  if (!regression) {
    const std::map<std::string, LabelCount> counts = count_labels(*all);
    names = known_labels(start_of(checkpoint), sorted_labels(counts));
    const std::string rare = rare_labels(*all, counts, recipe.data);
    if (!rare.empty()) message(rare);
  }
  if (problem_ == LabelProblem::single_label) check_labels(names, "labels", recipe.data.train);
  load_or_make(checkpoint, texts_of(train), "ForSequenceClassification",
               label_members(names, problem_name(problem_)));
  DataCounts counts("texts", "tokens", static_cast<double>(longest()));
  dev_ = tokenize(dev, "development", counts);
  test_ = tokenize(test, "test", counts);
  Examples examples = tokenize(train, "training", counts);
  data_ = counts.finish();
  begin_training(std::move(examples));
}

LabeledTask::Examples ClassificationTask::tokenize(const ChosenRecords<LabeledTexts>& texts, const char* set,
                                                   DataCounts& counts) const {
  counts.begin(set);
  const std::vector<std::string>& names = model_->labels();
  Examples examples(options_.output);
  const Truncation truncation{.max_length = longest()};
  for (std::int64_t i = 0; i < texts.size(); ++i) {
    throw_if_stopped();
    const LabeledText text = texts[i];
    const std::optional<std::string_view> pair =
        text.pair.empty() ? std::nullopt : std::optional<std::string_view>(text.pair);
    const Encoding encoding = encode(text.text, pair, truncation, counts);
    counts.add(content_key(text));
    Example example{{encoding.ids.begin(), encoding.ids.end()},
                    {encoding.type_ids.begin(), encoding.type_ids.end()},
                    {},
                    {},
                    text.weight,
                    text_of(text, set)};
    if (problem_ == LabelProblem::regression) {
      example.values = {
          value_of(text.labels.front(), texts.list->where(text), header_hint(text, recipe_.data))};
    } else {
      std::vector<float> present(names.size());
      for (const std::string& label : text.labels) {
        const std::int64_t number =
            label_number(names, label, texts.list->where(text), header_hint(text, recipe_.data));
        example.labels = {number};
        counts.add_label(label);
        present[static_cast<std::size_t>(number)] = 1;
      }
      if (problem_ == LabelProblem::multi_label) {
        example.labels.clear();
        example.values = std::move(present);
      }
    }
    examples.add(example);
  }
  examples.finish();
  return examples;
}

std::vector<std::string> ClassificationTask::metrics() const {
  if (problem_ == LabelProblem::regression) return {"pearson", "spearman"};
  if (problem_ == LabelProblem::multi_label) return {"f1", "exact"};
  return {"accuracy", "f1"};
}

std::optional<Evaluation> ClassificationTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

Evaluation ClassificationTask::evaluate(const Examples& examples) const {
  const std::vector<std::string>& names = model_->labels();
  double sum = 0;
  std::vector<std::size_t> predicted, right;                    // single labels
  std::vector<double> values, wanted;                           // regression
  std::int64_t hits = 0, positives = 0, truths = 0, exact = 0;  // several labels
  std::vector<Prediction> predictions;
  for_each_batch(examples, [&](const LabeledBatch& batch) {
    Context context;
    const Tensor hidden = model_->encode_for_head(batch.inputs, context);
    const Tensor logits = model_->predict(hidden, batch.inputs.mask, context);
    sum += sequence_loss(logits, batch.labels, problem_, {.reduction = Reduction::sum}).item();
    const std::vector<float> scores = logits.to(DType::f32).to_vector<float>();
    const auto labels = static_cast<std::size_t>(logits.size(1));
    const std::vector<float> losses =
        sequence_loss(logits, batch.labels, problem_, {.reduction = Reduction::none})
            .to(DType::f32)
            .to_vector<float>();
    const std::vector<float> probabilities =
        (problem_ == LabelProblem::multi_label ? sigmoid(logits) : softmax(logits, 1))
            .to(DType::f32)
            .to_vector<float>();
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      const Example example = examples[batch.rows[i]];
      const float* row = scores.data() + i * labels;
      Prediction& prediction = predictions.emplace_back(
          Prediction{.number = batch.rows[i], .text = example.text, .loss = losses[i]});
      if (problem_ != LabelProblem::regression)
        prediction.probabilities.assign(
            probabilities.begin() + static_cast<std::ptrdiff_t>(i * labels),
            probabilities.begin() + static_cast<std::ptrdiff_t>((i + 1) * labels));
      if (problem_ == LabelProblem::single_label) {
        predicted.push_back(static_cast<std::size_t>(std::max_element(row, row + labels) - row));
        right.push_back(static_cast<std::size_t>(example.labels.front()));
        prediction.predicted = names[predicted.back()];
        prediction.right = names[right.back()];
      } else if (problem_ == LabelProblem::regression) {
        values.push_back(row[0]);
        wanted.push_back(example.values.front());
        prediction.predicted = fmt::format("{:g}", values.back());
        prediction.right = fmt::format("{:g}", wanted.back());
      } else {
        bool same = true;
        const auto add = [&](std::string& list, std::size_t l) {
          list += (list.empty() ? "" : ",") + names[l];
        };
        for (std::size_t l = 0; l < labels; ++l) {
          const bool positive = row[l] > 0, truth = example.values[l] > 0;
          hits += positive && truth;
          positives += positive;
          truths += truth;
          same &= positive == truth;
          if (positive) add(prediction.predicted, l);
          if (truth) add(prediction.right, l);
        }
        exact += same;
      }
    }
  });
  Communicator& world = processes_of(options_);
  predicted = gather_values(world, predicted), right = gather_values(world, right);
  values = gather_values(world, values), wanted = gather_values(world, wanted);
  const auto counted = [](std::int64_t count) { return static_cast<double>(count); };
  const std::vector<double> total =
      world.sum({sum, counted(hits), counted(positives), counted(truths), counted(exact)});
  Evaluation evaluation{.loss = total[0] / static_cast<double>(examples.size()),
                        .predictions = gather_predictions(world, std::move(predictions))};
  const auto add = [&](const char* name, double value) { evaluation.metrics.push_back({name, 100 * value}); };
  if (problem_ == LabelProblem::single_label) {
    evaluation.metrics = label_metrics(predicted, right, model_->labels().size());
  } else if (problem_ == LabelProblem::regression) {
    add("pearson", pearson(values, wanted));
    add("spearman", spearman(values, wanted));
  } else {
    add("f1", total[2] + total[3] == 0 ? 0 : 2 * total[1] / (total[2] + total[3]));
    add("exact", total[4] / static_cast<double>(examples.size()));
  }
  return evaluation;
}

}  // namespace heed
