// Safetensors, the file format of Hugging Face's checkpoints: 8 bytes N (little endian), N bytes of JSON that
// give each tensor's name, dtype, shape and offsets, then the data. heed maps files, so that opening one
// reads only the header. It writes atomically, tensor by tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class ModelFiles;

/// A tensor's entry in the header.
struct TensorInfo {
  std::string name;
  std::string dtype;                // as in the format: "F32", "BF16", "I64", "F8_E4M3", ...
  std::vector<std::int64_t> shape;  // of any rank
  std::uint64_t begin = 0;          // first byte, relative to the end of the header
  std::uint64_t end = 0;
};

/// An open file. Copies share it, and tensors keep it mapped.
/// Threads: several may use one object at once.
class SafetensorsFile {
 public:
  /// Maps the file and checks its whole header: length (at most 100 MB); UTF-8; JSON that starts with "{"; no
  /// repeated name or field; exactly the fields dtype, shape and data_offsets; a dtype of the format; sizes
  /// whose product does not overflow; as many bytes as dtype and shape need; and tensors that fill the rest
  /// of the file without gaps, overlaps or trailing bytes. Throws Error naming the file (as `shown`, if
  /// given) and, if possible, the tensor and field.
  static SafetensorsFile open(const std::filesystem::path& path, const std::filesystem::path& shown = {});

  /// The path as messages show it.
  const std::filesystem::path& path() const;
  /// In the order of their bytes in the file.
  const std::vector<TensorInfo>& tensors() const;
  bool contains(std::string_view name) const;
  /// Throws Error if there is no such tensor.
  const TensorInfo& info(std::string_view name) const;
  /// Returns the tensor over the mapped file; only misaligned data are copied. Writing to it changes memory,
  /// never the file. Throws Error if there is no such tensor, and for what the format allows but heed does
  /// not support: other dtypes, more than 8 axes, a BOOL byte other than 0 and 1.
  Tensor get(std::string_view name) const;
  /// The bytes of a tensor of any dtype, u8 [bytes], as get().
  Tensor bytes_of(std::string_view name) const;
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
/// size. The file appears only when it is complete. Throws Error if a name is repeated, reserved or not
/// UTF-8, or if the file cannot be written.
void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

/// Returns the files that a `model.safetensors.index.json` names, in the order of first mention. Throws Error
/// if it is not such an index, or names a file in another folder.
std::vector<std::string> shards_of_index(const std::filesystem::path& index);

namespace io {
class GgufTensors;
}

/// The tensors of a model directory, in one file or several, or of a GGUF file, with the names and layout of
/// Hugging Face. Threads: several may use one object at once.
class TensorFiles {
 public:
  /// Opens `model.safetensors`, or the files that `model.safetensors.index.json` names, or `path` itself if
  /// it is a file. Throws Error if none of them exists (with a hint on converting a pickled
  /// `pytorch_model.bin`), and if index and files disagree. Every tensor must be in the file that the index
  /// gives; files must not contain others, and must be in the directory itself. If config.json has a
  /// `quantization_config` (GPTQ, AWQ, compressed-tensors, FP8, bitsandbytes), the tensors of each quantized
  /// weight become one tensor under the weight's name. If a GGUF file is one of several parts, all are
  /// opened.
  static TensorFiles open(const std::filesystem::path& path);
  /// The same for a model whose files are open.
  static TensorFiles open(const ModelFiles& model);

  std::size_t file_count() const;
  /// All names, file by file, in the order of their bytes.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return owner_.find(name) != owner_.end(); }
  /// The dtype of a quantized weight is the name of its format, such as "Q4_K".
  const TensorInfo& info(std::string_view name) const;
  /// For a quantized weight: its dequantized numbers in f32, computed when they are needed.
  Tensor get(std::string_view name) const;
  /// The bytes of a tensor, as in SafetensorsFile::bytes_of(). Throws Error for a GGUF file.
  Tensor bytes_of(std::string_view name) const { return owner(name).bytes_of(name); }
  /// Returns the file that contains a tensor, for messages.
  const std::filesystem::path& path_of(std::string_view name) const;
  /// The file or index that was opened, for messages.
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Quantized;
  const SafetensorsFile& owner(std::string_view name) const;
  void add(SafetensorsFile file);
  void join_quantized(const ModelFiles& model);

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t, std::less<>> owner_;                           // name to index in files_
  std::map<std::string, std::shared_ptr<const Quantized>, std::less<>> quantized_;  // by name
  std::shared_ptr<const io::GgufTensors> gguf_;                                     // instead of files_
};

}  // namespace heed
