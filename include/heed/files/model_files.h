// The files of a model, by name: those of a directory, or a GGUF file, whose metadata stand for the small
// files (config.json, tokenizer.json, ...) that a directory has.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

class GgufFile;

/// A directory in Hugging Face layout, or a GGUF file. Its path becomes absolute at once, so that it stays
/// the same model when the process changes its directory; messages show the path as it was given. Copies
/// share opened files and converted texts. Names are relative paths: `config.json`, `1_Pooling/config.json`.
/// Threads: several may use one object, or copies, at once.
class ModelFiles {
 public:
  /// Converts the metadata of a GGUF file to the texts of these files.
  struct Maker {
    std::vector<std::string_view> names;
    std::map<std::string, std::string> (*make)(const GgufFile& file);
    /// What messages call these texts: the keys of which they are made.
    std::string_view keys = "metadata";
  };
  /// Files are looked up when they are requested. `makers` are for a GGUF file: each is called at most once,
  /// when the first of its names is requested. heed::model_files() (heed/models/find_model.h) passes all
  /// makers.
  explicit ModelFiles(const std::filesystem::path& path, std::vector<Maker> makers = {});

  /// The absolute path of the directory or file.
  std::filesystem::path path() const;
  /// The name of the model, or of one of its files, in messages: the path as it was given. A text made from a
  /// GGUF file's metadata has the name of their keys: `x.gguf: tokenizer.ggml`.
  std::string where() const;
  std::string where(std::string_view name) const;

  /// Whether there is a file of that name. A dangling link counts, so that reading it reports the link.
  /// Throws Error if this cannot be determined.
  bool has(std::string_view name) const;
  /// Its content. Throws Error if it is missing, or has more than `limit` bytes.
  std::string text(std::string_view name, std::size_t limit) const;
  /// The files of a folder in it.
  ModelFiles folder(const std::filesystem::path& name) const;

  bool is_gguf() const;
  /// The GGUF file, opened once. Throws Error for a malformed one, and for a directory.
  std::shared_ptr<const GgufFile> gguf() const;

 private:
  struct State;
  ModelFiles(std::shared_ptr<const State> state, std::filesystem::path inner);
  // The text that a maker made under that name, and what it is made of; null where there is none.
  struct Made {
    const std::string* content = nullptr;
    std::string_view keys = {};
  };
  Made made(std::string_view name) const;

  std::shared_ptr<const State> state_;
  std::filesystem::path inner_;  // the folder, where it is not the whole
};

}  // namespace heed
