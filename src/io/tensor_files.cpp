#include <set>
#include <string_view>
#include <system_error>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/model_files.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "io/gguf_tensors.h"
#include "io/quantized_tensors.h"
#include "io/safetensors_header.h"

namespace heed {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

struct Index {
  std::vector<std::string> shards;                        // in the order of first mention
  std::map<std::string, std::string, std::less<>> owner;  // tensor to shard
};

// An index may only name files in its own folder: "../x" would read files that the user did not choose.
bool is_plain_name(const std::string& shard) {
  return !shard.empty() && shard != "." && shard != ".." && shard.find('/') == std::string::npos &&
         shard.find('\\') == std::string::npos && shard.find('\0') == std::string::npos;
}

Index read_index(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  const JsonField map = JsonField(json, where).at("weight_map");
  Index index;
  std::set<std::string> seen;
  map.each_member([&](const std::string& tensor, const JsonField& field) {
    const std::string& shard = field.string();
    if (!is_plain_name(shard)) field.fail("the name of a file in the same directory");
    index.owner.emplace(tensor, shard);
    if (seen.insert(shard).second) index.shards.push_back(shard);
  });
  if (index.owner.empty()) map.fail("tensors and their files");
  return index;
}

// Weight formats of other libraries, by the extension of their files.
struct OtherFormat {
  std::string_view ending;
  const char* name;
};
constexpr OtherFormat kOtherFormats[] = {
    {".onnx", "ONNX"},
    {".h5", "HDF5 (Keras)"},
    {".msgpack", "MessagePack (Flax)"},
};

[[noreturn]] void throw_no_tensors(const ModelFiles& model) {
  for (const char* pickled : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (model.has(pickled)) {
      throw Error(model.where(pickled) +
                  ": expected safetensors, got a pickle, which can run code when it is read (in Python, load "
                  "the model "
                  "and save it with save_pretrained(DIR, safe_serialization=True))");
    }
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(model.path(), error)) {
    const std::string where = model.where(entry.path().filename().string());
    if (entry.path().extension() == ".gguf")
      throw Error(model.where() + ": neither " + kSingleFile + " nor " + kIndexFile +
                  " found, but a GGUF file (give " + where + ")");
    for (const OtherFormat& format : kOtherFormats) {
      if (!where.ends_with(format.ending)) continue;
      throw Error(where + ": expected safetensors, got " + format.name +
                  " (heed reads the checkpoint in Hugging Face layout from which that file was made)");
    }
  }
  throw Error(model.where() + ": neither " + kSingleFile + " nor " + kIndexFile + " found");
}

}  // namespace

// A weight that several tensors hold.
struct TensorFiles::Quantized {
  TensorInfo info;
  Tensor tensor;
  std::filesystem::path path;
};

std::vector<std::string> shards_of_index(const std::filesystem::path& index) {
  return read_index(read_regular_file(index, file_limits::kTensorHeader), index.string()).shards;
}

TensorFiles TensorFiles::open(const std::filesystem::path& path) { return open(ModelFiles(path)); }

TensorFiles TensorFiles::open(const ModelFiles& model) {
  TensorFiles all;
  if (model.is_gguf()) {
    all.path_ = model.where();
    all.gguf_ = std::make_shared<const io::GgufTensors>(model.gguf());
    all.names_ = all.gguf_->names();
    for (const std::string& name : all.names_) all.owner_.emplace(name, 0);
    return all;
  }
  const std::filesystem::path path = model.path();
  const bool directory = has_entry(path, model.where()) && std::filesystem::is_directory(path);
  all.path_ = directory ? model.where(kSingleFile) : model.where();
  if (!directory || model.has(kSingleFile)) {
    all.add(SafetensorsFile::open(directory ? path / kSingleFile : path, all.path_));
    if (directory) all.join_quantized(model);
    return all;
  }
  all.path_ = model.where(kIndexFile);
  if (!model.has(kIndexFile)) throw_no_tensors(model);
  const Index index = read_index(model.text(kIndexFile, file_limits::kTensorHeader), all.path_.string());
  for (const std::string& shard : index.shards) {
    const std::size_t number = all.files_.size();
    all.add(SafetensorsFile::open(path / shard, model.where(shard)));
    for (const TensorInfo& info : all.files_.back().tensors()) {
      const auto listed = index.owner.find(info.name);
      if (listed != index.owner.end() && listed->second == shard) all.owner_[info.name] = number;
    }
  }
  all.join_quantized(model);
  return all;
}

void TensorFiles::join_quantized(const ModelFiles& model) {
  if (!model.has("config.json")) return;
  const auto quantization = Config::load(model, "config.json").optional_sub("quantization_config");
  if (!quantization) return;
  std::set<std::string> parts;
  std::vector<std::string> names;
  for (io::QuantizedTensor& one : io::quantized_tensors(*this, *quantization)) {
    auto joined = std::make_shared<Quantized>();
    joined->path = path_of(one.parts.front());
    joined->info = {one.name, one.format, {one.matrix->rows(), one.matrix->columns()}, 0, 0};
    joined->tensor = tensor_of(one.matrix, {one.matrix->rows(), one.matrix->columns()});
    for (const std::string& part : one.parts) {
      joined->info.end += info(part).end - info(part).begin;
      parts.insert(part);
    }
    names.push_back(one.name);
    quantized_.emplace(one.name, std::move(joined));
  }
  std::erase_if(names_, [&](const std::string& name) { return parts.contains(name); });
  for (const std::string& part : parts) owner_.erase(part);
  for (const std::string& name : names) owner_[name] = 0;
  names_.insert(names_.end(), names.begin(), names.end());
}

void TensorFiles::add(SafetensorsFile file) {
  for (const TensorInfo& info : file.tensors()) {
    if (owner_.emplace(info.name, files_.size()).second) names_.push_back(info.name);
  }
  files_.push_back(std::move(file));
}

std::size_t TensorFiles::file_count() const { return gguf_ != nullptr ? gguf_->file_count() : files_.size(); }

const TensorInfo& TensorFiles::info(std::string_view name) const {
  if (gguf_ != nullptr) return gguf_->info(name);
  const auto found = quantized_.find(name);
  return found != quantized_.end() ? found->second->info : owner(name).info(name);
}

Tensor TensorFiles::get(std::string_view name) const {
  if (gguf_ != nullptr) return gguf_->get(name);
  const auto found = quantized_.find(name);
  return found != quantized_.end() ? found->second->tensor : owner(name).get(name);
}

const std::filesystem::path& TensorFiles::path_of(std::string_view name) const {
  if (gguf_ != nullptr) return path_;
  const auto found = quantized_.find(name);
  return found != quantized_.end() ? found->second->path : owner(name).path();
}

const SafetensorsFile& TensorFiles::owner(std::string_view name) const {
  const auto found = owner_.find(name);
  if (found == owner_.end() || files_.empty()) {
    throw Error(path_.string() + ": tensor \"" + std::string(name) + "\" not found");
  }
  return files_[found->second];
}

}  // namespace heed
