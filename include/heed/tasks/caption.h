// Captions of images, or the text in an image: whatever an image encoder-decoder was trained to generate.
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
  /// A batch has images of one size: at most batch_tokens patches (counted once per beam), but at least one
  /// image. on_warning receives the images whose caption the model's last position ended, and on_error the
  /// files that cannot be read.
  TaskOptions task = {};
  GenerationOptions generation = {};
  std::vector<std::string> capture = {};  ///< taps to capture, see SearchHooks
  /// Called after every token of file `index`, sequence `sequence_index` of that file, with the part of the
  /// caption that has become final (possibly empty). The parts join to Caption::text. Returning false ends
  /// that sequence. Not available with beam search, whose texts are known only at the end.
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
