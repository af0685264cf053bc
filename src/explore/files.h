// Images and sounds that the page sends: their bytes, in memory only, and what a model reads of them.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "heed/image/processor.h"
#include "heed/models/model.h"
#include "heed/plot/picture.h"
#include "heed/sound/processor.h"

namespace heed::explore {

/// Threads: one at a time.
class Files {
 public:
  /// Holds a file and returns its number. Beyond 128 MiB or 32 files the oldest are forgotten, but never the
  /// last two: one of each side.
  std::int64_t add(std::string bytes);
  /// Forgets the file that was added last.
  void drop_last();
  /// Throws Error for a number that no file has, or a forgotten one.
  const std::string& bytes(std::int64_t number) const;

 private:
  std::deque<std::pair<std::int64_t, std::string>> files_;
  std::int64_t last_ = 0;
};

/// What makes a model's input of a file; empty for a model that reads text.
struct FileProcessor {
  std::optional<ImageProcessor> image = std::nullopt;
  std::optional<SoundProcessor> sound = std::nullopt;
};

/// That of a model's directory. Throws Error naming the file that is missing or wrong.
FileProcessor load_file_processor(const Model& model, const std::filesystem::path& directory);

struct FileInput {
  TensorMap tensors;
  InputImage seen = {};  ///< what the model sees of an image
};

/// `text`, `image` or `sound`: what a model reads.
const char* name_of(InputKind kind);

/// Decodes a file of at most 50 million pixels or ten minutes. Throws Error for what is no whole image or
/// sound, and for one that does not fit the model.
FileInput input_of_file(const InputSpec& input, const FileProcessor& processor, std::string_view bytes);

}  // namespace heed::explore
