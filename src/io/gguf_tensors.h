// The tensors of a GGUF file under the names and in the form that they have in Hugging Face's files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/fork_safe_mutex.h"
#include "files/gguf_file.h"
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

  std::size_t file_count() const { return file_->file_count(); }
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

}  // namespace heed::io
