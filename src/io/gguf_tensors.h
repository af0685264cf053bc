// The tensors of a GGUF file under the names and in the form that they have in Hugging Face's files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/fork_safe_mutex.h"
#include "files/gguf_file.h"
#include "heed/files/model_files.h"
#include "heed/io/safetensors.h"
#include "io/gguf_architecture.h"
#include "tensor/quantized_matrix.h"

namespace heed::io {

/// What llama.cpp's converter changed is undone, without copying: rows come in another order, matrices are
/// transposed, an expert is a part of a tensor. A tensor that heed does not know keeps its name.
class GgufTensors {
 public:
  /// Throws Error for an architecture that heed does not read, and for tensors whose shapes do not allow the
  /// change.
  explicit GgufTensors(std::shared_ptr<const GgufFile> file);

  std::size_t file_count() const { return file_->files().size(); }
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  /// The dtype is that of the blocks: "Q4_K".
  const TensorInfo& info(std::string_view name) const { return entry(name).info; }
  Tensor get(std::string_view name) const;

 private:
  struct Entry {
    TensorInfo info;
    const GgufTensor* tensor = nullptr;
    GgufChange change = GgufChange::none;
    std::int64_t expert = 0;
    mutable Tensor made = {};
  };
  const Entry& entry(std::string_view name) const;
  void add(const GgufTensor& tensor, std::string name, GgufChange change);
  void add_entry(std::string name, Entry entry);
  std::int64_t heads(GgufChange change) const;
  Tensor make(const Entry& entry) const;

  std::shared_ptr<const GgufFile> file_;
  std::vector<std::string> names_;
  std::map<std::string, Entry, std::less<>> entries_;
  mutable ForkSafeMutex mutex_;
};

// The small files of a model in a GGUF file: config.json and the like, made of its metadata.

/// Makes config.json, generation_config.json and, for a file that says how vectors are pooled, modules.json
/// and 1_Pooling/config.json of a GGUF file. Metadata of the architecture that nothing here understands
/// become keys of config.json, which reports what it does not use. The maker throws Error naming the file and
/// the key for metadata that are missing, of another type, or that change the computation in a way that heed
/// does not follow.
ModelFiles::Maker gguf_config_maker();

/// What a file has for rotary dimension i of `dim` in place of LLaMA 3's scaling, by its formula: by how much
/// the frequency is divided.
double gguf_llama3_factor(double theta, std::int64_t i, std::int64_t dim, double factor, double low,
                          double high, double original);

}  // namespace heed::io
