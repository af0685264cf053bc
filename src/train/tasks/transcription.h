// The transcription task: what is said in recordings, which are decoded in the background. Encoder-decoders
// (Whisper, Moonshine) and encoders with a CTC head (wav2vec 2.0).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpora.h"
#include "heed/generate/options.h"
#include "heed/io/json.h"
#include "heed/sound/processor.h"
#include "heed/text/tokenizer.h"
#include "train/tasks/batched_task.h"

namespace heed {

/// A recording with its text as the model's labels.
struct SpokenText {
  std::string file;
  std::string text;
  std::vector<std::int64_t> labels;
  std::int64_t samples = 0;  ///< as its header says

  static auto fields(auto& s) { return std::tie(s.file, s.text, s.labels, s.samples); }
};
using SpokenTexts = SpilledRecords<SpokenText>;

struct SpeechBatch {
  ModelInput inputs;
  Tensor labels;  ///< i64 [B, S], padded with kIgnoredLabel
  std::vector<std::int64_t> rows;
};

/// Makes batches: decodes the recordings. Owns what the reader's thread needs.
struct SpeechBatchMaker {
  SoundProcessor processor;

  /// All shares of a batch are padded to the same length.
  SpeechBatch operator()(const SpokenTexts& texts, const BatchPlan::Rows& batch) const;

 private:
  void pad(const std::vector<Tensor>& sounds, std::int64_t longest, ModelInput& inputs) const;
};

class TranscriptionTask final : public BatchedTask<SpeechBatch> {
 public:
  TranscriptionTask(const Recipe& recipe, const TrainOptions& options,
                    const std::filesystem::path& checkpoint);
  std::string unit() const override { return encoder_ != nullptr ? "recordings" : "tokens"; }
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  SummedLoss next_loss(Context& context) override;
  bool evaluates() const override { return !dev_.empty(); }
  std::vector<std::string> metrics() const override { return {"wer", "cer"}; }
  Evaluation evaluate() override { return evaluate(dev_); }
  std::optional<Evaluation> test() override;
  void save(const std::filesystem::path& directory, DType dtype) const override;
  std::string fingerprint() const override;

 private:
  void load(const std::filesystem::path& from);
  void load_head(const std::filesystem::path& from);
  void choose_prompt(const std::filesystem::path& from);
  SpokenTexts prepare(const ChosenRecords<LabeledTexts>& recordings, const char* name,
                      DataCounts& counts) const;
  double longest() const;  ///< in samples
  std::vector<std::int64_t> labels_of(const std::string& text) const;
  std::vector<ExampleLength> lengths_of(const SpokenTexts& texts) const;
  std::int64_t frames_of(std::int64_t samples) const;
  SummedLoss loss_of(const SpeechBatch& batch, double label_smoothing, Context& context) const;
  std::vector<std::string> decode(const SpokenTexts& texts, const SpeechBatch& batch, Context& context) const;
  Evaluation evaluate(const SpokenTexts& texts) const;
  void message(const std::string& text) const {
    if (options_.on_message) options_.on_message(text);
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<Config> preprocessor_;  ///< what save() writes beside the model
  std::optional<SoundProcessor> processor_;
  std::unique_ptr<Model> model_;
  EncoderModel* encoder_ = nullptr;         ///< the model, if it has a CTC head
  EncoderDecoderModel* decoder_ = nullptr;  ///< the model, if it has a decoder
  std::vector<std::int64_t> prompt_;        ///< of the decoder, from the start token on
  GenerationOptions generation_;
  std::string spoken_;  ///< members of generation_config.json: language and task of a multilingual Whisper
  std::vector<Parameter> parameters_;
  std::shared_ptr<const SpokenTexts> train_;
  SpokenTexts dev_, test_;
};

}  // namespace heed
