// Image files as batches of pixels.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "heed/models/input.h"
#include "heed/text/task_options.h"

namespace heed {

class ImageProcessor;

namespace tasks {

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

}  // namespace tasks
}  // namespace heed
