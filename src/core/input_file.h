// Files opened for reading, and how large each kind of file that is read whole may be. Opening never waits: a
// pipe, socket or device in the place of a model's file is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace heed {

/// The most bytes that are read of a file, by kind. Files that are mapped, as weights are, have no limit.
namespace file_limits {
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kRecipe = kMiB;
inline constexpr std::size_t kConfig = 8 * kMiB;  // config.json, generation_config.json, modules.json, …
inline constexpr std::size_t kTokenizerConfig = 64 * kMiB;  // with all added tokens
inline constexpr std::size_t kTokenizer = 512 * kMiB;  // tokenizer.json, vocabularies, SentencePiece models
inline constexpr std::size_t kTensorHeader = 100'000'000;  // of safetensors, set by the format; index files
inline constexpr std::size_t kText = 1024 * kMiB;          // the user's texts, and logs of training
}  // namespace file_limits

class InputFile {
 public:
  enum class Accept {
    regular,  ///< a regular file; anything else is refused at once
    streams,  ///< also pipes and devices; opening a pipe waits for its writer
  };
  /// Throws Error in one line where the file is missing, unreadable or of another kind.
  InputFile(const std::filesystem::path& path, Accept accept);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor() const { return descriptor_; }
  /// The size of a regular file when it was opened.
  std::uint64_t bytes() const { return bytes_; }
  /// All that is in it. Throws Error when that is more than `limit` bytes.
  std::string read(std::size_t limit) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool regular_ = false;
  std::uint64_t bytes_ = 0;
};

/// The content of a regular file, as InputFile reads it.
std::string read_regular_file(const std::filesystem::path& path, std::size_t limit);

/// Whether there is an entry of that name; a dangling link is one, so that reading it reports the link.
/// Throws Error where that cannot be found out.
bool has_entry(const std::filesystem::path& path);

}  // namespace heed
