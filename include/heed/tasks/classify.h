// Classification: predicts labels of whole texts or images, using a model with a sequence head.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/tasks/batches.h"

namespace HEED_API heed {

class DualEncoderModel;
class ImageProcessor;
class SoundProcessor;

struct LabelScore {
  std::size_t index = 0;  ///< index in the model's list of labels
  double score = 0;
};

/// How logits become scores. With one label, the config's score_activation decides. The default depends on
/// the model's problem_type: none for regression; sigmoid of each logit for multi_label and if there is one
/// label; otherwise softmax over the labels.
enum class LabelFunction : std::uint8_t { sigmoid, softmax, none };
LabelFunction label_function(const EncoderModel& model);

/// Returns for every text, in order, the `top_k` labels (0: all) with the highest scores, highest first.
/// Throws Error if the model has another head.
std::vector<std::vector<LabelScore>> classify(const EncoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const TextPair> texts, std::int64_t top_k,
                                              const TaskOptions& options = {});

/// The same for image files (heed/image/image.h): each is decoded, and preprocessed to the model's input. A
/// batch has images of one size: at most options.batch_tokens patches, but at least one image. A file that
/// cannot be read is reported to TaskOptions::on_error; without this callback, the Error names the file.
/// Throws Error if the model takes no images.
std::vector<std::vector<LabelScore>> classify_images(const EncoderModel& model,
                                                     const ImageProcessor& processor,
                                                     std::span<const std::string> files, std::int64_t top_k,
                                                     const TaskOptions& options = {});

/// The same for sound files (heed/sound/sound.h), one at a time, with a model of spectrograms or samples
/// (AST). A longer recording is cut to the length of the model's input. Throws Error if the model takes no
/// sound.
std::vector<std::vector<LabelScore>> classify_sounds(const EncoderModel& model,
                                                     const SoundProcessor& processor,
                                                     std::span<const std::string> files, std::int64_t top_k,
                                                     const TaskOptions& options = {});

/// Zero-shot classification with a model of texts and images. `labels` are texts such as "a photo of a cat";
/// their scores are the softmax (CLIP) or the sigmoid (SigLIP) of their logits for an image. Throws Error
/// without labels.
std::vector<std::vector<LabelScore>> classify_images(const DualEncoderModel& model,
                                                     const Tokenizer& tokenizer,
                                                     const ImageProcessor& processor,
                                                     std::span<const std::string> files,
                                                     std::span<const std::string> labels, std::int64_t top_k,
                                                     const TaskOptions& options = {});

}  // namespace heed
