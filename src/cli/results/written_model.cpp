#include "cli/results/written_model.h"

#include <map>

#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"
#include "core/json.h"
#include "core/json_field.h"
#include "files/folder_lock.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/files/model_files.h"
#include "heed/io/safetensors.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

// The dtype of most bytes of the files.
DType dtype_of(const fs::path& directory) {
  const TensorFiles files = TensorFiles::open(directory);
  std::map<std::string, std::uint64_t> bytes;
  for (const std::string& name : files.names())
    bytes[files.info(name).dtype] += files.info(name).end - files.info(name).begin;
  const bool narrow = bytes["BF16"] + bytes["F16"] > bytes["F32"] + bytes["F64"];
  if (!narrow) return DType::f32;
  return bytes["BF16"] > bytes["F16"] ? DType::bf16 : DType::f16;
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw UsageError("--dtype: expected f32, bf16 or f16, got " + name);
}

// The folders that modules.json names, of sentence-transformers: how vectors are made.
void copy_modules(const fs::path& from, const fs::path& to) {
  const fs::path file = from / "modules.json";
  if (!fs::exists(file)) return;
  const Json modules = parse_json(read_regular_file(file, file_limits::kConfig), file.string());
  const JsonField list(modules, file.string());
  for (std::size_t i = 0; i < list.array_size(); ++i) {
    const fs::path name = list.at(i).string("path", "");
    if (name.empty() || name.has_parent_path() || name == ".." || !fs::is_directory(from / name)) continue;
    fs::create_directory(to / name);
    for (const auto& entry : fs::directory_iterator(from / name)) {
      const std::string ending = entry.path().extension().string();
      if (entry.is_regular_file() && (ending == ".json" || ending == ".safetensors"))
        fs::copy_file(entry.path(), to / name / entry.path().filename());
    }
  }
}

// Files of a model's directory that save() does not write: those of its tokenizer, and others beside it.
void copy_others(const LoadedModel& model, const fs::path& to) {
  const fs::path from = model.location();
  if (model.files().is_gguf()) return model.tokenizer().save(to);
  copy_modules(from, to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path name = entry.path().filename();
    const std::string ending = name.extension().string();
    const bool text =
        ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".spm" || ending == ".jinja";
    if (text && entry.is_regular_file() && !fs::exists(to / name) && !name.native().ends_with(".index.json"))
      write_file(to / name, read_regular_file(entry.path(), file_limits::kTokenizer));
  }
}

}  // namespace

std::uint64_t bytes_of_weights(const fs::path& model) {
  std::error_code error;
  if (fs::is_regular_file(model, error)) return fs::file_size(model, error);
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(model, error)) {
    if (entry.path().extension() == ".safetensors" && entry.is_regular_file(error))
      bytes += entry.file_size();
  }
  return bytes;
}

// What has been written disappears with the objects that own it.
void stop_if_asked() {
  if (stop_flag()) throw Canceled();
}

void WrittenModel::add_options(CLI::App& command, const char* help, const char* kind) {
  command.add_option("--output,-o", output, help)
      ->required()
      ->type_name(kind)
      ->group("Output")
      ->check([](const std::string& text) {
        const std::string ending = fs::path(text).extension().string();
        const bool file =
            ending == ".safetensors" || ending == ".bin" || ending == ".pt" || ending == ".onnx";
        return file ? "expected the name of a folder, or FILE.gguf, got " + text : "";
      });
  command.add_option("--dtype", dtype, "Type of the written weights (default: that of the model's file)")
      ->type_name("f32|bf16|f16")
      ->group("Output");
}

void WrittenModel::check() const { NewModelFolder::refuse_model(output); }

DType WrittenModel::type(const LoadedModel& model) const {
  return dtype.empty() ? dtype_of(model.location()) : dtype_named(dtype);
}

void WrittenModel::write(const LoadedModel& model) const {
  const DType written = type(model);
  stop_if_asked();
  NewModelFolder folder(output);
  model.model().save(folder.path(), written);
  copy_others(model, folder.path());
  stop_if_asked();
  folder.commit();
}

}  // namespace heed::cli
