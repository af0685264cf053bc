// From a name to the directory of a model.
#include "heed/models/find_model.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>
#include <string_view>

#include "core/edit_distance.h"
#include "core/strings.h"
#include "files/gguf_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/hub_cache.h"
#include "io/gguf_tensors.h"
#include "text/loading/loaders.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct Format {
  std::string_view magic;
  std::string_view ending;
  const char* name;
};
// By the first bytes where the format has such, else by the name.
constexpr Format kFormats[] = {
    {"\x89HDF", ".h5", "an HDF5 file (Keras)"},
    {"PK\x03\x04", "", "a pickled PyTorch checkpoint"},  // in a zip archive
    {"\x80\x02", "", "a pickled PyTorch checkpoint"},    // of before 1.6
    {"", ".onnx", "an ONNX file"},
    {"", ".msgpack", "a MessagePack file (Flax)"},
};

// What the file is, if it is a model of another tool; else null.
const char* other_format(const fs::path& file) {
  char begin[4] = {};
  std::ifstream(file, std::ios::binary).read(begin, sizeof begin);
  for (const Format& format : kFormats) {
    if (!format.magic.empty() && std::string_view(begin, sizeof begin).starts_with(format.magic))
      return format.name;
  }
  for (const Format& format : kFormats) {
    if (!format.ending.empty() && file.native().ends_with(format.ending)) return format.name;
  }
  return nullptr;
}

constexpr const char* kWhatHeedReads =
    "a directory with config.json and model.safetensors (heed pull OWNER/MODEL downloads one) or a GGUF file";

[[noreturn]] void refuse_file(const fs::path& file) {
  if (file.extension() == ".safetensors")
    throw Error(file.string() + ": expected a directory, got a file (give the directory that holds it)");
  const char* format = other_format(file);
  throw Error(file.string() + ": expected " + kWhatHeedReads + ", got " +
              (format != nullptr ? format : "a file"));
}

// A folder with another tool's weights alone, without any of the JSON files that heed reads.
void refuse_other_formats(const fs::path& directory) {
  std::error_code error;
  const char* format = nullptr;
  fs::path file, gguf;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!entry.is_regular_file(error)) continue;
    const std::string ending = entry.path().extension().string();
    if (ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".spm") return;
    if (is_gguf(entry.path())) gguf = entry.path();
    if (const char* other = other_format(entry.path()); other != nullptr && format == nullptr) {
      format = other;
      file = entry.path();
    }
  }
  if (!gguf.empty())
    throw Error(directory.string() + ": expected " + kWhatHeedReads +
                ", got a directory that holds one (give " + gguf.string() + ")");
  if (format != nullptr)
    throw Error(directory.string() + ": expected " + kWhatHeedReads + ", got " + format + " (" +
                file.filename().string() + ")");
}

// The folders of a list that are separated by ':', as in $PATH.
std::vector<fs::path> folders_in(const char* list) {
  std::vector<fs::path> folders;
  std::istringstream stream(list != nullptr ? list : "");
  for (std::string folder; std::getline(stream, folder, ':');) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

// Whether a file is in a folder or one below it.
bool is_below(const fs::path& file, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return end == folder.end();
}

std::vector<fs::path> data_folders() {
  std::vector<fs::path> folders = {path_in_environment("XDG_DATA_HOME")};
  if (folders.front().empty()) {
    const char* home = std::getenv("HOME");
    folders.front() = home != nullptr ? fs::path(home) / ".local/share" : fs::path();
  }
  const char* shared = std::getenv("XDG_DATA_DIRS");
  for (const fs::path& folder :
       folders_in(shared != nullptr && *shared != '\0' ? shared : "/usr/local/share:/usr/share"))
    folders.push_back(folder);
  return folders;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Appends the repositories of the Hugging Face cache.
void add_cached_models(std::vector<KnownModel>& models) {
  constexpr std::string_view kFolder = "models--";
  for (const fs::path& entry : sorted_entries(hub_cache())) {
    std::string name = entry.filename().string();
    if (!name.starts_with(kFolder)) continue;
    name.erase(0, kFolder.size());
    if (const std::size_t slash = name.find("--"); slash != std::string::npos) name.replace(slash, 2, "/");
    try {
      const fs::path snapshot = find_snapshot(hub_cache(), name, "");
      if (!snapshot.empty()) models.push_back({name, snapshot});
    } catch (const Error&) {
      models.push_back({name, {}});
    }
  }
}

// Ends the message about a name that no model has: with the models that are here.
std::string with_known_models(std::string message, const std::vector<KnownModel>& models) {
  constexpr std::size_t kMost = 6;
  const std::string names =
      joined(std::span(models).first(std::min(models.size(), kMost)), ", ", &KnownModel::name);
  if (models.empty() || !message.ends_with(")")) return message;
  message.pop_back();
  return message + "; here are " + names + (models.size() > kMost ? " and others" : "") +
         ": heed models lists them)";
}

// The model that an adapter was trained on.
fs::path base_of(const fs::path& adapter) {
  const std::string base = base_of_adapter(adapter);
  const std::string hint = " (" + adapter.string() +
                           " is a LoRA adapter of it: give --model BASE --adapter " + adapter.string() + ")";
  if (base.empty()) throw Error(adapter.string() + ": base_model_name_or_path: not set" + hint);
  try {
    return find_model(base);
  } catch (const Error& error) {
    throw Error(error.what() + hint);
  }
}

}  // namespace

std::vector<fs::path> folders_of_heed(const std::string& name) {
  std::vector<fs::path> folders;
  std::error_code error;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", error); !error) {
    folders.push_back(program.parent_path().parent_path() / "share/heed" / name);
    // An installed program does not use the source tree that heed was built from.
    const fs::path built = fs::canonical(HEED_BUILD_DIRECTORY, error);
    if (!error && is_below(program, built)) folders.push_back(fs::path(HEED_SOURCE) / name);
  }
  // A Python package has them beside the extension that this code is in.
  Dl_info part;
  link_map* library = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(&folders_in), &part, reinterpret_cast<void**>(&library),
                RTLD_DL_LINKMAP) != 0 &&
      *library->l_name != '\0') {  // the program itself has no name
    const fs::path folder = fs::path(library->l_name).parent_path() / "share/heed" / name;
    if (fs::is_directory(folder, error)) folders.push_back(folder);
  }
  std::vector<fs::path> data_of_all = data_folders();
  data_of_all.emplace_back(HEED_DATA_DIRECTORY);  // of the prefix that heed was built for
  for (const fs::path& data : data_of_all) {
    const fs::path folder = data / "heed" / name;
    if (std::find(folders.begin(), folders.end(), folder) == folders.end() && fs::is_directory(folder, error))
      folders.push_back(folder);
  }
  return folders;
}

std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders = folders_in(std::getenv("HEED_MODELS"));
  for (const fs::path& folder : folders_of_heed("models")) folders.push_back(folder);
  return folders;
}

std::vector<KnownModel> known_models() {
  std::vector<KnownModel> models;
  std::error_code error;
  for (const fs::path& folder : model_folders()) {
    for (const fs::path& entry : sorted_entries(folder)) {
      const std::string name = entry.filename().string();
      const bool hidden = std::any_of(models.begin(), models.end(),
                                      [&](const KnownModel& model) { return model.name == name; });
      if (!hidden && fs::exists(entry / "config.json", error)) models.push_back({name, entry});
    }
  }
  add_cached_models(models);
  return models;
}

fs::path find_model(const std::string& name) {
  std::error_code error;
  try {
    return find_model(name, model_folders(), hub_cache());
  } catch (const Error& failure) {
    const std::string message = failure.what();
    if (fs::exists(name, error) || message.find(": not found (run: ") == std::string::npos) throw;
    const std::vector<KnownModel> models = known_models();
    std::vector<std::string> names;
    for (const KnownModel& model : models) names.push_back(model.name);
    const std::string last = fs::path(name).filename().string();  // models/en-fr of a source tree: en-fr
    const bool is_known = std::find(names.begin(), names.end(), last) != names.end();
    const std::string near = is_known ? last : nearest_word(name, names);
    throw Error(near.empty() ? with_known_models(message, models)
                             : "model " + name + ": not found (did you mean " + near + "?)");
  }
}

fs::path find_model(const std::string& name, const std::vector<fs::path>& folders, const fs::path& hub) {
  std::error_code error;
  if (fs::is_directory(name, error)) {
    refuse_other_formats(name);
    refuse_unfinished_run(name);
    return name;
  }
  if (is_gguf(name)) return name;
  if (fs::is_regular_file(name, error)) refuse_file(name);
  std::string looked;
  for (const fs::path& folder : folders) {
    if (fs::path(name).is_absolute()) break;
    if (fs::exists(folder / name / "config.json", error)) return folder / name;
    looked += (folder / name).string() + ", ";
  }
  const auto [repository, revision] = split_revision(name);
  const bool can_be_pulled = is_repository_name(repository) && (revision.empty() || is_revision(revision));
  if (!can_be_pulled) throw Error("model " + name + ": not found (check the path)");
  if (const fs::path snapshot = find_snapshot(hub, repository, revision); !snapshot.empty()) return snapshot;
  throw Error("model " + name + ": not found (run: heed pull " + name + "; or give a directory; looked in " +
              looked + hub.string() + ")");
}

std::vector<std::int64_t> checkpoint_steps(const fs::path& run) {
  std::vector<std::int64_t> steps;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", none)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), step);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == name.data() + name.size();
    if (is_number && is_complete(entry.path())) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

fs::path checkpoint_path(const fs::path& run, std::int64_t step) {
  return run / "checkpoints" / std::to_string(step);
}

void refuse_unfinished_run(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory / "checkpoints", error)) return;
  if (fs::exists(directory / "model.safetensors", error) || has_adapter(directory)) return;
  const std::vector<std::int64_t> steps = checkpoint_steps(directory);
  if (steps.empty()) return;
  throw Error(directory.string() + ": no final model yet (use " +
              checkpoint_path(directory, steps.back()).string() +
              ", or continue with heed train RECIPE --output " + directory.string() + " --resume)");
}

ModelFiles model_files(const fs::path& directory) {
  return ModelFiles(directory, {io::gguf_config_maker(), gguf_tokenizer_maker()});
}

AdapterSource find_adapter(const std::string& name, double weight) {
  const fs::path directory = find_model(name);
  if (!has_adapter(directory))
    throw Error(directory.string() +
                ": expected an adapter, got a directory without adapter_config.json (--model takes models)");
  return {directory, weight};
}

LocatedModel locate_model(const std::string& name) {
  const fs::path directory = find_model(name);
  if (is_adapter(directory)) return {base_of(directory), {{directory}}};
  return {directory};
}

}  // namespace heed
