// Training on preferences: a decoder learns which of two answers to a prompt is preferred, by DPO, IPO, SimPO
// or ORPO (train/tasks/preference_loss.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/preference_pairs.h"
#include "data/text_corpus.h"
#include "heed/chat/model_chat.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"
#include "train/tasks/batched_task.h"
#include "train/tasks/preference_loss.h"

namespace heed {

/// The sequences of P pairs: those with the chosen answers, then those with the rejected ones.
struct PairBatch {
  Tensor ids, labels;              ///< i64 [2P, T]; labels are the next tokens, of answers if not of more
  Tensor answers;                  ///< f32 [2P, T], 1 where a label is of an answer
  std::vector<std::int64_t> rows;  ///< the numbers of the pairs
  double per_token = 0;            ///< pairs divided by chosen sequences' labels, of all processes
};

/// The pairs of a file, and what the reference says of them.
struct PairSet {
  std::shared_ptr<const TextCorpus> corpus;
  std::vector<PreferencePair> pairs;
  std::int64_t truncated = 0, left_out = 0;  ///< of the file
  std::vector<double> reference{};           ///< log p of each pair's chosen and rejected answer; empty: none

  /// Two rows of a batch each.
  std::vector<ExampleLength> lengths() const;
  /// Of the pairs `rows`, this process's of `all`. With `likelihood`, all tokens of chosen sequences have
  /// labels.
  PairBatch batch(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& all,
                  std::int64_t padding, bool likelihood) const;
};

/// A batch has both sequences of a pair. The reference is the model of --init as it is before training, or
/// task.reference: its log-probabilities are computed before the first step, and kept in the run's
/// reference_logps.safetensors.
class PreferenceTask final : public BatchedTask<PairBatch> {
 public:
  PreferenceTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  std::string unit() const override { return "pairs"; }
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  SummedLoss next_loss(Context& context) override;
  std::vector<std::string> step_metrics() const override { return metrics(); }
  std::vector<std::string> metrics() const override;
  bool evaluates() const override { return dev_ != nullptr; }
  Evaluation evaluate() override { return evaluate(*dev_); }
  std::optional<Evaluation> test() override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;
  DataSummary data() const override;

 private:
  /// Sums over the pairs of a batch.
  struct Totals {
    Tensor loss;
    Tensor likelihood{};  ///< ORPO's cross-entropy, over the labels of the chosen sequences
    std::vector<double> metrics{};
  };
  std::shared_ptr<PairSet> read(const std::filesystem::path& path, const char* name) const;
  std::vector<TokenizedPart> tokenize(const TextPart& line) const;
  TokenizedPart text(const std::string& prompt, const std::string& answer, const std::string& where) const;
  TokenizedPart chat(Json conversation, const std::string& where) const;
  void report(const PreferencePairs& found, const std::filesystem::path& path) const;
  bool learns_likelihood() const { return recipe_.task.loss == "orpo"; }
  std::int64_t padding() const { return tokenizer_->pad_id().value_or(0); }

  /// Calls `handle` for this process's batches of the set, in order of length.
  template <class Handle>
  void for_each_batch(const PairSet& set, const Handle& handle) const;
  /// The losses of labels [2P, T].
  Tensor token_losses(const DecoderModel& model, const PairBatch& batch, Context& context) const;
  Totals totals(const PairSet& set, const PairBatch& batch, double label_smoothing, Context& context) const;
  Evaluation evaluate(const PairSet& set) const;

  void find_reference(const std::filesystem::path& checkpoint);
  bool load_reference(const std::filesystem::path& file, const std::string& data, const std::string& model);
  void compute_reference(const DecoderModel& model, const std::string& name);
  std::vector<double> logps_of(const DecoderModel& model, const PairSet& set, const std::string& name) const;
  /// With their names.
  std::vector<std::pair<const char*, PairSet*>> sets() const;
  void message(const std::string& text) const {
    if (options_.on_message) options_.on_message(text);
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ModelChat> chat_;
  std::unique_ptr<DecoderModel> model_;
  std::vector<Parameter> parameters_;
  std::shared_ptr<PairSet> train_, dev_, test_;
};

}  // namespace heed
