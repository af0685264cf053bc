// From a name to the directory of a model.
#include <fstream>
#include <string_view>

#include "heed/io/hub_cache.h"
#include "heed/models/registry.h"

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
    {"GGUF", ".gguf", "a GGUF file (llama.cpp)"},
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
    "a directory with config.json and model.safetensors (heed pull OWNER/MODEL downloads one)";

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
  fs::path file;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!entry.is_regular_file(error)) continue;
    const std::string ending = entry.path().extension().string();
    if (ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".spm") return;
    if (const char* other = other_format(entry.path()); other != nullptr && format == nullptr) {
      format = other;
      file = entry.path();
    }
  }
  if (format != nullptr)
    throw Error(directory.string() + ": expected " + kWhatHeedReads + ", got " + format + " (" +
                file.filename().string() + ")");
}

}  // namespace

fs::path find_model(const std::string& name, const std::vector<fs::path>& folders, const fs::path& hub) {
  std::error_code error;
  if (fs::is_directory(name, error)) {
    refuse_other_formats(name);
    return name;
  }
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

}  // namespace heed
