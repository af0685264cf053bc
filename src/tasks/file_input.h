// Image and sound files as inputs of models, one at a time: what analyses and the page of heed explore read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "heed/image/image.h"
#include "heed/image/processor.h"
#include "heed/models/model.h"
#include "heed/sound/processor.h"

namespace heed::tasks {

/// What makes a model's input of a file; empty for a model that reads text.
struct FileProcessor {
  std::optional<ImageProcessor> image = std::nullopt;
  std::optional<SoundProcessor> sound = std::nullopt;
};

/// That of a model's directory. Throws Error naming the file that is missing or wrong.
FileProcessor load_file_processor(const InputSpec& input, const std::filesystem::path& directory);

struct FileInput {
  TensorMap tensors;  ///< one row
  Tensor seen = {};   ///< u8 [height, width, 3]: what the model sees of an image; undefined of a sound
};

/// What a file may ask for.
struct FileLimits {
  ImageLimits image = {};
  SoundLimits sound = {};
};

/// Decodes and preprocesses a file. Throws Error naming it for what is no whole image or sound, for one
/// beyond the limits, and for one that does not fit the model.
FileInput file_input(const InputSpec& input, const FileProcessor& processor, const std::string& file);
/// The same of its bytes; messages begin with `name`.
FileInput file_input(const InputSpec& input, const FileProcessor& processor, std::string_view bytes,
                     const std::string& name, const FileLimits& limits);

}  // namespace heed::tasks
