// Opens files for reading, and limits the size of files that are read whole. Opening never blocks: a pipe,
// socket or device in place of a model's file is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace heed {

/// Maximum size in bytes of a file that is read, by kind. Mapped files, such as weights, have no limit.
namespace file_limits {
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kRecipe = kMiB;
inline constexpr std::size_t kConfig = 8 * kMiB;  // config.json, generation_config.json, modules.json, …
inline constexpr std::size_t kTokenizerConfig = 64 * kMiB;  // including all added tokens
inline constexpr std::size_t kTokenizer = 512 * kMiB;  // tokenizer.json, vocabularies, SentencePiece models
inline constexpr std::size_t kTensorHeader = 100'000'000;  // set by the safetensors format; also index files
inline constexpr std::size_t kText = 1024 * kMiB;          // texts of the user, and training logs
}  // namespace file_limits

/// The path that stands for the standard input: as a file's name it is opened like any other.
inline constexpr const char* kStandardInput = "/dev/stdin";

/// What messages call a file: its path, or `standard input`.
std::string shown_name(const std::filesystem::path& path);

class InputFile {
 public:
  enum class Accept {
    regular,  ///< a regular file; anything else is rejected at once
    streams,  ///< also pipes and devices; opening a pipe waits for its writer
  };
  /// Throws Error, as one line, which calls the file `shown` (empty: as the path), if it is missing,
  /// unreadable or of another kind.
  InputFile(const std::filesystem::path& path, Accept accept, const std::filesystem::path& shown = {});
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor() const { return descriptor_; }
  bool is_regular() const { return regular_; }
  /// The size of a regular file at the time of opening.
  std::uint64_t bytes() const { return bytes_; }
  /// Returns the whole content, without a byte order mark. Throws Error if it has more than `limit` bytes.
  std::string read(std::size_t limit) const;

 private:
  std::filesystem::path shown_;
  int descriptor_ = -1;
  bool regular_ = false;
  std::uint64_t bytes_ = 0;
};

/// Returns the content of a regular file, using InputFile.
std::string read_regular_file(const std::filesystem::path& path, std::size_t limit);

/// Returns true if there is an entry of that name. A dangling link counts, so that reading it reports the
/// link. Throws Error, which calls it `shown` (empty: as the path), if this cannot be determined.
bool has_entry(const std::filesystem::path& path, const std::filesystem::path& shown = {});

}  // namespace heed
