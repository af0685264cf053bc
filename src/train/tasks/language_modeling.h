// Language modeling on texts: causal (predict the next token), masked (predict hidden tokens) and denoising
// (give back what noise has hidden).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/packed_rows.h"
#include "data/text_corpus.h"
#include "heed/chat/model_chat.h"
#include "heed/data/batch.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"
#include "train/tasks/batched_task.h"
#include "train/tasks/model_source.h"

namespace heed {

/// Rows of token ids with the label of each position; i64 [B, T]. Positions with the label kIgnoredLabel do
/// not count. Of an encoder-decoder, the labels are those of the decoder, [B, T'].
struct TokenBatch {
  Tensor ids;
  Tensor mask;  ///< i64 [B, T], 1 = token, 0 = padding; undefined if there is no padding
  Tensor labels;
  std::int64_t targets = 0;  ///< labels that count
  std::int64_t tokens = 0;   ///< of the rows, and of decoders' targets, without padding
  Tensor document_starts{};  ///< i64 [B, T], where rows hold documents that are kept apart
  Tensor weights{};          ///< f32 [B, T], of the losses; undefined: all 1
};

/// Says what is skipped of the lines of a chat file. Throws Error if that is more than data.bad_share.
void report_unusable(const UnusableParts& bad, const std::string& things, const std::filesystem::path& path,
                     const Recipe& recipe, const TrainOptions& options);

/// Throws Error for rows that are longer than the model has positions.
void check_context(const Recipe& recipe, std::optional<std::int64_t> positions);

/// What these tasks share: the corpora and their tokenizer.
class TextTask : public BatchedTask<TokenBatch> {
 public:
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  bool evaluates() const override { return dev_ != nullptr; }
  Evaluation evaluate() override { return evaluate(*dev_); }
  std::optional<Evaluation> test() override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;

 protected:
  TextTask(const Recipe& recipe, const TrainOptions& options) : recipe_(recipe), options_(options) {}
  /// Loads the tokenizer of `from`, or of tokenizer.from, or trains one.
  void load_or_train_tokenizer(const std::filesystem::path& from);
  /// With data.format = "chat", loads the chat templates of the same files.
  void load_chat(const std::filesystem::path& from);
  /// Reads the corpora. `separator` (if not negative) ends every document.
  void read_corpora(std::int64_t separator);
  /// Keeps the model, whose parameters are trained; reports what it is.
  void keep(std::unique_ptr<Model> model);
  /// Of a training step: summed over the labels, and smoothed as the recipe says.
  CrossEntropyOptions loss_options() const;
  /// The next batch's loss, of a model that takes a mask.
  template <class MaskedModel>
  SummedLoss loss_of_next(const MaskedModel& model, Context& context) {
    const TokenBatch batch = next_batch();
    if (batch.targets == 0) return {};
    return {.sum = model.loss({batch.ids, batch.mask}, batch.labels, loss_options(), context),
            .tokens = batch.targets,
            .read = batch.tokens};
  }
  virtual Evaluation evaluate(const TextCorpus& corpus) const = 0;

  const Recipe& recipe_;
  const TrainOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ModelChat> chat_;
  std::unique_ptr<Model> kept_;
  std::vector<Parameter> parameters_;
  std::shared_ptr<const TextCorpus> train_, dev_, test_;

 private:
  std::map<std::filesystem::path, std::int64_t> lossy_lines_;  // of each file
  std::shared_ptr<const TextCorpus> read(const std::filesystem::path& path, const char* name,
                                         std::int64_t separator);
  /// Fills data_.
  void count();
  /// Moves data.dev_share of the training corpus to dev_.
  void hold_out();
};

/// With task.cross_documents, every row is `context` consecutive tokens of the corpus, and its labels are the
/// tokens after each; an epoch visits nearly every token once, in rows that begin at another offset in every
/// epoch. Else rows hold whole documents: a token attends to its own document only, and a document's first
/// token is no label. With task.answers_after, and of conversations (data.format = "chat"), only the tokens
/// of answers are labels, and every row has one.
class CausalLmTask final : public TextTask {
 public:
  CausalLmTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  SummedLoss next_loss(Context& context) override;
  std::vector<std::string> metrics() const override { return {}; }
  std::vector<Prediction> samples() const override;
  std::string fingerprint() const override;

 private:
  struct Documents;
  void begin_stream();
  void begin_documents();
  /// Says which documents are not learned whole. Throws Error if none is learned.
  void report(const DocumentParts& parts) const;
  Documents documents_of(std::shared_ptr<const TextCorpus> corpus, DocumentParts parts,
                         std::vector<TextRow> answers) const;
  DocumentParts held_out_parts(const TextCorpus& corpus, const std::vector<TextRow>& answers) const;
  Evaluation evaluate(const TextCorpus& corpus) const override;
  /// Of the labels of a batch, in the order of its positions.
  std::vector<float> token_losses(const TokenBatch& batch) const;
  /// Of the tokens begin .. end - 1.
  std::string text_of(const TextCorpus& corpus, std::int64_t begin, std::int64_t end) const;
  Evaluation evaluate_stream(const TextCorpus& corpus) const;
  Evaluation evaluate_documents(const TextCorpus& corpus) const;
  DecoderModel* model_ = nullptr;  // kept_
  bool keeps_apart_ = false;       // rows may hold several documents
};

/// Devlin et al. 2018: a share of the tokens (task.mask_probability) is predicted; of these, 80 % are
/// replaced by the mask token, 10 % by a random one, and 10 % stay. Other tokens are chosen in every epoch
/// (Liu et al. 2019).
class MaskedLmTask final : public TextTask {
 public:
  MaskedLmTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  SummedLoss next_loss(Context& context) override;
  std::vector<std::string> metrics() const override { return {"accuracy"}; }

 private:
  Evaluation evaluate(const TextCorpus& corpus) const override;
  EncoderModel* model_ = nullptr;  // kept_
};

/// Pretraining of an encoder-decoder: it reads rows with noise and gives what was hidden
/// (task.objective = "spans", T5) or the whole rows ("bart"). The noise is new in every epoch and depends
/// only on (seed, epoch, row).
class DenoisingTask final : public TextTask {
 public:
  DenoisingTask(const Recipe& recipe, const TrainOptions& options, const std::filesystem::path& checkpoint);
  SummedLoss next_loss(Context& context) override;

 private:
  Evaluation evaluate(const TextCorpus& corpus) const override;
  EncoderDecoderModel* model_ = nullptr;  // kept_
};

}  // namespace heed
