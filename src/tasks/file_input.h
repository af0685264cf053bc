// Image and sound files as inputs of models: one at a time, as analyses and the page of heed explore read
// them, and images in batches.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "heed/files/model_files.h"
#include "heed/image/image.h"
#include "heed/image/processor.h"
#include "heed/models/input.h"
#include "heed/models/model.h"
#include "heed/sound/processor.h"
#include "heed/text/task_options.h"

namespace heed::tasks {

/// What makes a model's input of a file; empty for a model that reads text.
struct FileProcessor {
  std::optional<ImageProcessor> image = std::nullopt;
  std::optional<SoundProcessor> sound = std::nullopt;
};

/// That of a model's files. Throws Error naming the file that is missing or wrong.
FileProcessor load_file_processor(const InputSpec& input, const ModelFiles& files);

struct FileInput {
  TensorMap tensors;  ///< one row
  Tensor seen = {};   ///< u8 [height, width, 3]: what the model sees of an image; undefined of a sound
};

/// What a file may ask for.
struct FileLimits {
  ImageLimits image = {};
  SoundLimits sound = {};
};

/// Decodes and preprocesses a file. Throws Error naming it for what is no whole image or sound (a sound that
/// is cut only without `on_warning`: SoundOptions), for one beyond the limits, and for one that does not fit
/// the model.
FileInput file_input(const InputSpec& input, const FileProcessor& processor, const std::string& file,
                     const std::function<void(const std::string& message)>& on_warning = {});
/// The same of its bytes; messages begin with `name`.
FileInput file_input(const InputSpec& input, const FileProcessor& processor, std::string_view bytes,
                     const std::string& name, const FileLimits& limits);

// Batches of the pixels of image files.

/// One file as a model takes it: pixels f32 [1, C, H, W], or patches [1, N, numbers] and their grid, none of
/// them padding. Throws Error naming the file.
ModelInput image_input(const std::string& file, const ImageProcessor& processor, const InputSpec& spec);
/// The same of a decoded image u8 [height, width, 3] of that name.
ModelInput image_input(const Tensor& image, const std::string& name, const ImageProcessor& processor,
                       const InputSpec& spec);

/// What a model reads, and the number of its tokens for an image of the usual size.
struct ImageInput {
  InputSpec spec;
  std::int64_t tokens = 1;
};

/// Receives the indices of a batch's files and the batch.
using ImageHandler = std::function<void(std::span<const std::size_t> chosen, const ModelInput& images)>;

/// Decodes and preprocesses the files, and calls `handle` for batches of images of one size, in order: as
/// many as options.batch_tokens has tokens for, at least one. A file that cannot be read is as a text that
/// cannot be used: see TaskOptions::on_error; without it, its Error names the file. Throws Error if the model
/// takes no images.
void for_each_image_batch(const ImageInput& input, const ImageProcessor& processor,
                          std::span<const std::string> files, const TaskOptions& options, const char* task,
                          const ImageHandler& handle);

}  // namespace heed::tasks
