// Training of vectors of texts: bi-encoders, whose vectors are compared.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "data/labeled_data.h"
#include "heed/tasks/embed.h"
#include "heed/text/tokenizer.h"
#include "heed/train/train.h"
#include "train/tasks/batched_task.h"
#include "train/tasks/data_counts.h"
#include "train/tasks/model_source.h"

namespace heed {

/// The tokens of compared texts: the query's first.
struct TokenizedTexts {
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<float> labels;
  std::vector<std::uint64_t> keys;  ///< of each text: equal ones are equal

  static auto fields(auto& t) { return std::tie(t.ids, t.labels, t.keys); }
};

/// Rows of a batch: those of all processes, one process after the other, of which this one has the texts.
struct TextsBatch {
  std::vector<Encoding> texts;       ///< row by row, the query first
  std::vector<bool> queries;         ///< of each of them: whether it is one
  std::vector<std::int64_t> counts;  ///< texts of each row, the query included
  std::vector<float> labels;         ///< of each row, if it is a scored pair
};

class EmbeddingTask final : public BatchedTask<TextsBatch> {
 public:
  EmbeddingTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  std::string unit() const override { return "rows"; }
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  SummedLoss next_loss(Context& context) override;
  bool evaluates() const override { return !dev_.empty(); }
  std::vector<std::string> metrics() const override;
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;
  DataSummary data() const override { return data_; }

 private:
  using Rows = SpilledRecords<TokenizedTexts>;
  void load_or_make(const std::filesystem::path& checkpoint, const SentenceSource& texts);
  /// How the vectors of queries, and of the other texts, are computed.
  const EmbeddingRecipe& how(bool query) const { return query ? queries_ : documents_; }
  bool scored() const { return recipe_.task.loss != "multiple-negatives"; }
  /// The tokens of a text; sets `whole` to how many they were before truncation.
  Encoding encode(const std::string& text, bool query, std::int64_t& whole) const;
  Rows tokenize(const ChosenRecords<ComparedEntries>& rows, const char* set, DataCounts& counts) const;
  /// What must not be in one batch with each row.
  std::vector<RowTexts> texts_apart(const Rows& rows) const;
  /// The loss of the vectors of all texts of a batch, row by row: a sum over its rows.
  Tensor loss_of(const Tensor& vectors, const std::vector<std::int64_t>& counts,
                 const std::vector<float>& labels) const;
  /// The vectors [texts, D] of texts, computed by all processes, the same on each.
  Tensor embed_all(const std::vector<Encoding>& texts, bool query) const;
  Evaluation evaluate(const Rows& rows) const;
  double mean_loss(const Rows& rows, const Tensor& queries, const Tensor& documents) const;
  std::vector<Metric> retrieval_metrics(const Rows& rows, const Tensor& queries,
                                        const Tensor& documents) const;

  const Recipe& recipe_;
  const TrainOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
  std::vector<Parameter> parameters_;
  EmbeddingRecipe recipe_of_model_, queries_, documents_;
  std::int64_t width_ = 0;  // of token vectors
  DataSummary data_;
  std::shared_ptr<const Rows> train_;
  Rows dev_, test_;
  TokenizedTexts corpus_;  // which queries of dev and test search beside their positives
};

}  // namespace heed
