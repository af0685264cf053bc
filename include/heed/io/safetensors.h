// Safetensors, the file format of Hugging Face's checkpoints: 8 bytes N (little endian), N bytes of JSON that
// name each tensor with dtype, shape and place, then the data. heed reads by mapping the
// file, so that opening reads only the header; it writes atomically, tensor by tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// A tensor's entry in the header.
struct TensorInfo {
  std::string name;
  std::string dtype;                // as in the format: "F32", "BF16", "I64", "F8_E4M3", ...
  std::vector<std::int64_t> shape;  // of any rank
  std::uint64_t begin = 0;          // first byte, counted from the end of the header
  std::uint64_t end = 0;
};

/// An opened file. Copies share it; tensors keep it mapped.
class SafetensorsFile {
 public:
  /// Maps the file and checks its whole header: length (at most 100 MB), UTF-8, JSON that starts with "{", no
  /// name or field twice, exactly the fields dtype, shape and data_offsets, a dtype of the format, sizes
  /// whose product fits, as many bytes as dtype and shape need, and tensors that fill the rest of the file
  /// without gap, overlap or trailing bytes. Throws Error naming the file, and the tensor and field where
  /// there is one.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const;
  /// In the order of their bytes in the file.
  const std::vector<TensorInfo>& tensors() const;
  bool contains(std::string_view name) const;
  /// Throws Error when there is no such tensor.
  const TensorInfo& info(std::string_view name) const;
  /// The tensor over the mapped file; only misaligned data are copied.
  /// Writing to it changes memory, never the file. Throws Error when there is no such tensor, and for what
  /// the format allows but heed does not support: other dtypes, more than 8 axes, a BOOL byte that is neither
  /// 0 nor 1.
  Tensor get(std::string_view name) const;
  /// The strings under `__metadata__`.
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct Contents;
  explicit SafetensorsFile(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}
  std::shared_ptr<const Contents> contents_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Writes the tensors in the given order, but wider dtypes first, so that each is aligned to its element
/// size. The file appears only when it is complete. Throws Error for a name given twice, reserved or not
/// UTF-8, and when the file cannot be written.
void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

/// The files that a `model.safetensors.index.json` names, in the order of first mention. Throws Error when it
/// is not such an index, or names a file in another folder.
std::vector<std::string> shards_of_index(const std::filesystem::path& index);

/// The tensors of a model directory, in one file or in several.
class TensorFiles {
 public:
  /// Opens `model.safetensors`, or the files that `model.safetensors.index.json` names, or `path` itself when
  /// it is a file. Throws Error when none of them exists (with a hint how to convert a pickled
  /// `pytorch_model.bin`), and when index and files disagree: every tensor must be in the file the
  /// index says, no file may hold others, and files must lie in the directory itself.
  static TensorFiles open(const std::filesystem::path& path);

  /// The opened files, in the order the index first names them.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// All names, file by file, in the order of the bytes.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return owner_.find(name) != owner_.end(); }
  const TensorInfo& info(std::string_view name) const { return owner(name).info(name); }
  Tensor get(std::string_view name) const { return owner(name).get(name); }
  /// The file a tensor is in, for messages.
  const std::filesystem::path& path_of(std::string_view name) const { return owner(name).path(); }
  /// What was opened, for messages: the file, or the index.
  const std::filesystem::path& path() const { return path_; }

 private:
  const SafetensorsFile& owner(std::string_view name) const;
  void add(SafetensorsFile file);

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> owner_;  // name to place in files_
};

}  // namespace heed
