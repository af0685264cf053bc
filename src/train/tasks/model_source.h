// Where a run's model and tokenizer come from: a checkpoint of the run, the model it starts from, or new ones
// by the recipe.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/random.h"
#include "heed/text/tokenizer.h"
#include "heed/text/training.h"
#include "heed/train/recipe.h"
#include "heed/train/train.h"

namespace heed {

/// The directory whose model and tokenizer a run takes: `checkpoint` if the run is resumed, else
/// options.init; empty for a new model. Tells options.on_message that parts of the recipe are unused.
std::filesystem::path model_source(const TrainOptions& options, const std::filesystem::path& checkpoint);

/// The config.json of a new model: the recipe's [model], the tokenizer's size and special tokens, and
/// `members`, a JSON object (architectures, labels).
Config new_model_config(const Recipe& recipe, const Tokenizer& tokenizer, const std::string& members);

/// That of a model without a tokenizer: `members`, and the recipe's [model].
Config new_model_config(const Recipe& recipe, const std::string& members);

/// The random numbers of initial weights.
Generator initial_weights(const Recipe& recipe);

/// How the recipe's [tokenizer] is trained; special tokens other than marian's.
TokenizerTraining tokenizer_training(const Recipe& recipe, std::int64_t model_max_length);

/// The tokenizer of an encoder: that of the directory `from`, or, if it is empty, tokenizer.from's, or one
/// that is trained on `texts`.
std::unique_ptr<Tokenizer> tokenizer_for(const Recipe& recipe, const TrainOptions& options,
                                         const std::filesystem::path& from, const SentenceSource& texts);

/// The encoder that a run trains: that of the directory `from`, or, if it is empty, a new one, with the head
/// `head` (the ending of a class name) and `members`, a JSON object, in its config.json.
std::unique_ptr<EncoderModel> encoder_for(const Recipe& recipe, const Tokenizer& tokenizer,
                                          const std::filesystem::path& from, const std::string& head,
                                          const std::string& members);

/// The encoder-decoder that a run trains: that of the directory `from`, or, if it is empty, a new one.
/// Throws Error if the model is of another kind (naming the task for it), or if `tokenizer` lacks the tokens
/// of a new one.
std::unique_ptr<EncoderDecoderModel> encoder_decoder_for(const Recipe& recipe, const Tokenizer& tokenizer,
                                                         const std::filesystem::path& from);

/// The parameters that the recipe trains: those of a new adapter ([lora]), or the model's and those `behind`
/// it, of which task.freeze stops the training. Throws Error if a pattern matches none or all are frozen.
std::vector<Parameter> trained_parameters(Model& model, const Recipe& recipe,
                                          const std::vector<Parameter>& behind = {});

/// The directory of the model that an adapter is trained on: options.init, or that of the adapter in
/// `checkpoint`, if the run is resumed. Throws Error if there is none.
std::filesystem::path adapted_model(const TrainOptions& options, const std::filesystem::path& checkpoint);

/// Throws Error if the tokenizer has ids that the model lacks.
void check_fits(const Tokenizer& tokenizer, const Model& model);

/// Says which special tokens have another id in the tokenizer than in the config.json of the model in `from`
/// (empty: a new model), which then probably belongs to another tokenizer.
void report_other_ids(const Tokenizer& tokenizer, const std::filesystem::path& from,
                      const TrainOptions& options);

/// "a gpt2 model of 809856 parameters".
std::string describe_model(const Model& model);
/// The same and ", a vocabulary of 65".
std::string describe_model(const Model& model, const Tokenizer& tokenizer);

/// A hash of data in 16 hexadecimal digits, for TrainingTask::fingerprint (FNV-1a over 64-bit words).
class Fingerprint {
 public:
  void add(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3ull; }
  void add(std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) add(static_cast<std::uint64_t>(id));
    add(static_cast<std::uint64_t>(ids.size()) << 32);
  }
  /// Its bytes as signed numbers, which char is on some processors only.
  void add(std::string_view text) {
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<signed char>(c)));
  }
  std::string text() const;

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
};

}  // namespace heed
