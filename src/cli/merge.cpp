// heed merge: writes a model with its adapters merged into the weights, or in another type.
#include <map>

#include "cli/cli.h"
#include "cli/models.h"
#include "cli/signals.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "files/folder_lock.h"
#include "files/gguf_file.h"
#include "files/input_file.h"
#include "heed/canceled.h"
#include "heed/files/file.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

struct MergeArguments {
  ModelChoice model;
  fs::path output;
  std::string dtype;  // empty: that of the model's file
};

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
  if (name == "f16") return DType::f16;
  if (name == "f32" || name == "bf16") return weights_dtype(name);
  throw UsageError("--dtype: expected f32, bf16 or f16, got " + name);
}

// After Ctrl-C: what has been written disappears with the objects that own it.
void stop_if_asked() {
  if (stop_flag()) throw Canceled();
}

// Files of a model's directory that merging does not write: those of its tokenizer, and others beside it.
void copy_others(const fs::path& from, const fs::path& to) {
  if (is_gguf(from)) return load_tokenizer(from)->save(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const fs::path name = entry.path().filename();
    const std::string ending = name.extension().string();
    const bool text =
        ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".spm" || ending == ".jinja";
    if (text && entry.is_regular_file() && !fs::exists(to / name) && !name.native().ends_with(".index.json"))
      write_file(to / name, read_regular_file(entry.path(), file_limits::kTokenizer));
  }
}

void run(const MergeArguments& a, const Globals& globals) {
  const LocatedModel located = locate_model(a.model);
  if (located.adapters.empty() && a.dtype.empty()) {
    throw UsageError(
        "--adapter: missing (give at least one to merge into the model, or --dtype to write the model as it "
        "is in another type)");
  }
  for (const AdapterSource& source : located.adapters) {
    std::error_code error;
    if (fs::equivalent(source.directory, a.output, error))
      throw UsageError("--output: expected another folder than the adapter's, got " + a.output.string());
  }
  std::error_code error;
  if (fs::exists(a.output / "config.json", error))
    throw Error(a.output.string() + ": expected a folder without a model, got one (choose another --output)");
  stop_if_asked();
  const DType dtype = a.dtype.empty() ? dtype_of(located.directory) : dtype_named(a.dtype);
  const auto model = load_model(located.directory, DType::f32, located.adapters);
  warn_of_unknown_settings(*model, located.directory, globals);
  model->merge_adapters();
  const MadeFolder made(a.output);
  const FolderLock lock(a.output);
  stop_if_asked();
  AtomicDirectory staging(a.output / "merged");
  model->save(staging.path(), dtype);
  copy_others(located.directory, staging.path());
  stop_if_asked();
  lock.check();
  staging.move_files(a.output, "model.safetensors");
  if (!globals.quiet) print_stderr("wrote " + a.output.string());
}

}  // namespace

void add_merge(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "merge", "Write a model with LoRA adapters merged into its weights, or in another type");
  auto a = std::make_shared<MergeArguments>();
  add_model_option(*command, a->model)->required();
  command->add_option("--output,-o", a->output, "Directory to write the model to")
      ->required()
      ->type_name("DIR")
      ->group("Output");
  command->add_option("--dtype", a->dtype, "Type of the written weights (default: that of the model's file)")
      ->type_name("f32|bf16|f16")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  heed merge --model gpt2 --adapter runs/poems --output gpt2-poems\n"
      "  heed merge --model gpt2 --adapter runs/poems=0.7 --adapter runs/verse=0.3 --output gpt2-mixed\n"
      "  heed merge --model gpt2 --dtype bf16 --output gpt2-half");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
