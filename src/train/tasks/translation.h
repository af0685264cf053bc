// TranslationTask: trains an encoder-decoder on pairs of texts: translations, summaries, answers.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/corpora.h"
#include "heed/data/batch.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"
#include "heed/train/recipe.h"
#include "train/tasks/batched_task.h"

namespace heed {

/// Pairs for evaluation.
struct EvaluationSet {
  TokenizedCorpus pairs;                           ///< all pairs, for the loss
  std::vector<std::vector<std::int64_t>> sources;  ///< ids of the distinct sources that are decoded
  std::vector<ReferenceGroup> references;          ///< of each of them
};

class TranslationTask final : public BatchedTask<Batch> {
 public:
  /// Reads the data, and loads or creates tokenizer and model: those of `checkpoint`, from which a run is
  /// resumed, if it is not empty; otherwise those of options.init, or new ones.
  TranslationTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  /// Writes the pairs that were held out from the training file, one text per line: dev.source.txt,
  /// dev.reference.txt, test.source.txt, test.reference.txt. Of JSON lines with several references, those of
  /// other files too, each source once: its further references are in dev.reference.2.txt, ...
  void write_held_out(const std::filesystem::path& directory) const;

  const std::vector<Parameter>& parameters() const override { return parameters_; }
  SummedLoss next_loss(Context& context) override;
  bool evaluates() const override { return dev_.pairs.size() > 0; }
  std::vector<std::string> metrics() const override {
    if (!recipe_.eval.bleu) return {};
    if (recipe_.eval.scores == "bleu") return {"bleu", "exact"};
    return {"rouge1", "rouge2", "rougeL", "rougeLsum"};
  }
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;

 private:
  void load_or_make(const std::filesystem::path& checkpoint);
  void make_tokenizer();
  TokenizedCorpus tokenize(const CorpusPart& part, const char* name, DataCounts& counts) const;
  std::int64_t longest() const;
  std::vector<std::int64_t> source_ids(std::string_view text, std::atomic<std::int64_t>& cut) const;
  std::vector<std::int64_t> target_ids(std::string_view text, std::atomic<std::int64_t>& cut) const;
  EvaluationSet evaluation_set(const CorpusPart& part, const char* name, std::int64_t limit,
                               DataCounts& counts) const;
  double mean_loss(const TokenizedCorpus& pairs) const;
  void decode(const EvaluationSet& set, Evaluation& evaluation) const;
  Evaluation evaluate(const EvaluationSet& set) const;
  void message(const std::string& text) const;

  const Recipe& recipe_;
  const TrainOptions& options_;
  Corpora corpora_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<EncoderDecoderModel> model_;
  std::vector<Parameter> parameters_;
  std::shared_ptr<const TokenizedCorpus> train_;
  EvaluationSet dev_;
  EvaluationSet test_;
};

}  // namespace heed
