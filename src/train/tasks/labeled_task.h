// Training of encoders on labeled texts: classification, tagging and answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/labeled_data.h"
#include "heed/data/batch.h"
#include "heed/models/model.h"
#include "heed/tasks/answer.h"
#include "heed/text/tokenizer.h"
#include "heed/text/training.h"
#include "heed/train/train.h"
#include "train/tasks/batched_task.h"
#include "train/tasks/model_source.h"

namespace heed {

/// A tokenized example. Its labels are one class; or values; or a label a token; or the first and last token
/// of an answer.
struct Example {
  std::vector<std::int32_t> ids;
  std::vector<std::int8_t> type_ids;
  std::vector<std::int64_t> labels;
  std::vector<float>
      values;  ///< in the place of labels: of a regression, or 0 and 1 for each of several labels
  double weight = 1;
  std::string text{};  ///< of a held-out example, for its prediction

  static auto fields(auto& e) { return std::tie(e.ids, e.type_ids, e.labels, e.values, e.weight, e.text); }
};

struct LabeledBatch {
  ModelInput inputs;
  Tensor labels;
  std::vector<float> weights;  ///< of the rows; empty: all 1
  std::int64_t targets = 0;    ///< texts, or labeled tokens
  std::vector<std::int64_t> rows;
};

/// What the tasks share: model, tokenizer and the training examples.
class LabeledTask : public BatchedTask<LabeledBatch> {
 public:
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  std::vector<std::string> labels() const override { return model_->labels(); }
  SummedLoss next_loss(Context& context) override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;

 protected:
  using Examples = SpilledRecords<Example>;
  LabeledTask(const Recipe& recipe, const TrainOptions& options) : recipe_(recipe), options_(options) {}
  /// Loads tokenizer and model, or trains and makes new ones. `texts` train the tokenizer; `members` are
  /// those of config.json (labels) and `head` is the class name's ending.
  void load_or_make(const std::filesystem::path& checkpoint, const SentenceSource& texts,
                    const std::string& head, const std::string& members);
  /// The directory of the model that training starts from; empty: a new one.
  std::filesystem::path start_of(const std::filesystem::path& checkpoint) const {
    return checkpoint.empty() ? options_.init : checkpoint;
  }
  /// Begins training on the examples, if there are any, by the labels of the training set in data_.
  void begin_training(Examples examples);
  /// Calls `handle` for this process's share of the batches of the examples, in order of length.
  void for_each_batch(const Examples& examples, const std::function<void(const LabeledBatch&)>& handle) const;
  std::int64_t longest() const;
  /// The tokens of a text or a pair, truncated to `truncation`, which are counted.
  Encoding encode(const std::string& text, std::optional<std::string_view> pair, const Truncation& truncation,
                  DataCounts& counts) const;
  /// Warns of bytes in the file, or the files of the folder, that texts do not have.
  void report_control_bytes(const std::filesystem::path& path, std::int64_t count) const;
  void message(const std::string& text) const {
    if (options_.on_message) options_.on_message(text);
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<EncoderModel> model_;

 private:
  SummedLoss weighted_loss(const LabeledBatch& batch, Context& context) const;

  std::vector<Parameter> parameters_;
  std::shared_ptr<const Examples> examples_;
  std::vector<double> class_weights_;
};

/// Labels of whole texts or pairs.
class ClassificationTask final : public LabeledTask {
 public:
  ClassificationTask(const Recipe& recipe, const TrainOptions& options,
                     const std::filesystem::path& checkpoint);
  std::string unit() const override { return "texts"; }
  bool evaluates() const override { return !dev_.empty(); }
  std::vector<std::string> metrics() const override;
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;

 private:
  Examples tokenize(const ChosenRecords<LabeledTexts>& texts, const char* set, DataCounts& counts) const;
  Evaluation evaluate(const Examples& examples) const;
  Examples dev_, test_;
  LabelProblem problem_;
};

/// Tags of words: the label of a word is that of its first token.
class TaggingTask final : public LabeledTask {
 public:
  TaggingTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  std::string unit() const override { return "words"; }
  bool evaluates() const override { return !dev_.empty(); }
  std::vector<std::string> metrics() const override { return {"f1", "precision", "recall", "accuracy"}; }
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;

 private:
  Examples tokenize(const ChosenRecords<TaggedSentences>& sentences, const char* set,
                    DataCounts& counts) const;
  Evaluation evaluate(const Examples& examples) const;
  Examples dev_, test_;
};

/// Answers as spans of a context, which is read in overlapping windows.
class AnswersTask final : public LabeledTask {
 public:
  AnswersTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  std::string unit() const override { return "windows"; }
  std::vector<std::string> labels() const override { return {}; }
  bool evaluates() const override { return !dev_.empty(); }
  std::vector<std::string> metrics() const override { return {"exact", "f1"}; }
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;

 private:
  /// The windows that contain answers; adds the number of the others to `dropped`.
  Examples tokenize(const ChosenRecords<AnsweredQuestions>& questions, std::int64_t& dropped) const;
  void count(const ChosenRecords<AnsweredQuestions>& questions, const char* set, DataCounts& counts) const;
  Evaluation evaluate(const ChosenRecords<AnsweredQuestions>& questions) const;
  ChosenRecords<AnsweredQuestions> dev_, test_;
};

/// The texts of rows, the query first, for a tokenizer to be trained on.
SentenceSource texts_of(const ChosenRecords<ComparedEntries>& rows);

// The labels of training data: which there are, in which order, and what config.json says of them.

LabelProblem problem_of(const Recipe& recipe);

/// The examples of a label: how many, and where the first is.
struct LabelCount {
  std::int64_t count = 0, first = 0;
};

std::map<std::string, LabelCount> count_labels(const LabeledTexts& texts);

/// The labels in order: numbers by value, others by their bytes.
std::vector<std::string> sorted_labels(const std::map<std::string, LabelCount>& counts);

/// Advice on a label in line 1 of a table that is none.
const char* header_hint(const LabeledText& text, const DataOptions& data);

/// A warning of labels that one example has, which are probably mistakes; empty: there are none.
std::string rare_labels(const LabeledTexts& texts, const std::map<std::string, LabelCount>& counts,
                        const DataOptions& data);

/// The labels of the model in `from` (empty: a new one) if they include all of `names`: then its head is
/// kept. Else `names`.
std::vector<std::string> known_labels(const std::filesystem::path& from, std::vector<std::string> names);

/// Throws Error if there are fewer than two labels to tell apart.
void check_labels(const std::vector<std::string>& names, const char* what, const std::filesystem::path& file);

/// The number of the label of an example. Throws Error if it is none of `names`.
std::int64_t label_number(const std::vector<std::string>& names, const std::string& label,
                          const std::string& where, const char* hint);

/// The weights of the losses of these labels, whose counts in the training set are `counts`; empty: all 1.
/// Throws Error if the recipe names a label that is none of them.
std::vector<double> class_weights(const ClassWeights& weights, const std::vector<std::string>& names,
                                  const std::map<std::string, std::int64_t>& counts);

/// The sum of the losses, each times the weight of its label and its own one (empty: 1), and the sum of these
/// weights; ignored labels weigh nothing. `losses` and `labels` [B] or [B, T], `own` of the B rows.
SummedLoss weighted_sum(const Tensor& losses, const Tensor& labels, const std::vector<double>& by_label,
                        const std::vector<float>& own);

/// The members of config.json for these labels; `problem` is problem_type, empty: none.
std::string label_members(const std::vector<std::string>& names, std::string_view problem);

/// The scores of predictions among `labels` labels: accuracy and macro F1, in percent.
std::vector<Metric> label_metrics(const std::vector<std::size_t>& predicted,
                                  const std::vector<std::size_t>& right, std::size_t labels);

}  // namespace heed
