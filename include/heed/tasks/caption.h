// Captions of images, or the text that an image shows: whatever an encoder-decoder of images was trained to
// write.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/generate/search.h"
#include "heed/text/task_options.h"

namespace HEED_API heed {

class ImageProcessor;
class Tokenizer;

struct CaptionOptions {
  /// Batches have images of one size, as many as batch_tokens has patches for (counted once per beam), at
  /// least one. on_warning receives the images whose caption the model's last position ended, and on_error
  /// the files that cannot be read.
  TaskOptions task = {};
  GenerationOptions generation = {};
  std::vector<std::string> capture = {};  ///< taps to capture, see SearchHooks
  /// Called after every token with the part of the caption of file `index`, sequence `sequence_index` of
  /// those of the file, that has become final (possibly empty). The parts join to Caption::text. Returning
  /// false ends that sequence. Not available with beam search, whose texts are known only at the end.
  std::function<bool(std::size_t index, std::size_t sequence_index, const std::string& text)> on_text = {};
};

/// One caption of an image.
struct Caption {
  std::string text;  ///< without special tokens, and without spaces at its ends
  Hypothesis hypothesis;
};

/// Writes captions for image files (heed/image/image.h): each is decoded, and preprocessed to the model's
/// input. Returns the captions of every file, in order, best first; none for a file that was reported to
/// on_error (without that callback, its Error names the file). The captions of an image do not depend on the
/// others. If the options set no maximum length, it is the number of the model's positions. Throws Error if
/// the model takes no images.
std::vector<std::vector<Caption>> caption_images(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                                 const ImageProcessor& processor,
                                                 std::span<const std::string> files,
                                                 const CaptionOptions& options = {});

}  // namespace heed
