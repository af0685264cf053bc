// Training of rerankers: cross-encoders, which read a query and a document together and score them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "data/labeled_data.h"
#include "heed/text/tokenizer.h"
#include "heed/train/train.h"
#include "train/tasks/batched_task.h"
#include "train/tasks/data_counts.h"
#include "train/tasks/model_source.h"

namespace heed {

/// The tokens of a query with each of its documents.
struct TokenizedList {
  std::vector<std::vector<std::int64_t>> ids, type_ids;
  std::vector<float> labels;
  std::uint64_t query = 0;  ///< equal for equal queries

  static auto fields(auto& l) { return std::tie(l.ids, l.type_ids, l.labels, l.query); }
};

struct ListsBatch {
  ModelInput inputs;
  std::vector<std::int64_t> counts;  ///< documents of each query
  std::vector<float> labels;
};

class RerankingTask final : public BatchedTask<ListsBatch> {
 public:
  RerankingTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  std::string unit() const override { return recipe_.task.loss == "list-net" ? "queries" : "pairs"; }
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  SummedLoss next_loss(Context& context) override;
  bool evaluates() const override { return !dev_.empty(); }
  std::vector<std::string> metrics() const override { return {"mrr@10", "ndcg@10"}; }
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;
  DataSummary data() const override { return data_; }

 private:
  using Lists = SpilledRecords<TokenizedList>;
  /// Of the training set, without rows that the loss cannot learn from.
  Lists tokenize(const ChosenRecords<ComparedEntries>& rows, const char* set, DataCounts& counts) const;
  std::int64_t longest() const;
  SummedLoss loss_of(const Tensor& logits, const ListsBatch& batch) const;
  Tensor logits_of(const ListsBatch& batch, Context& context) const;
  Evaluation evaluate(const Lists& lists) const;

  const Recipe& recipe_;
  const TrainOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<EncoderModel> model_;
  std::vector<Parameter> parameters_;
  std::shared_ptr<const Lists> train_;
  Lists dev_, test_;
  DataSummary data_;
};

}  // namespace heed
