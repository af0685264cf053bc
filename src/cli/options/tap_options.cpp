// Connects names of taps to tensors by name.
#include "cli/options/tap_options.h"

#include <optional>

#include "cli/cli.h"
#include "core/strings.h"
#include "heed/io/safetensors.h"

namespace heed::cli {
namespace {

constexpr const char* kTapsOfFile = "taps";  // in the metadata: names, separated by commas

std::vector<std::string> tap_names(const SafetensorsFile& file) {
  const auto named = file.metadata().find(kTapsOfFile);
  if (named != file.metadata().end()) return inspect::split_taps(named->second);
  std::vector<std::string> names;
  for (const TensorInfo& info : file.tensors()) names.push_back(info.name);
  return names;
}

}  // namespace

TapRange parse_positions(const std::string& text, const std::string& option) {
  const std::optional<TapRange> range = inspect::tap_range(text);
  if (!range) throw UsageError(option + ": expected positions like 3, 2:5, 2: or :5, got " + text);
  return *range;
}

TapRequest parse_tap(const std::string& text, const std::string& where) {
  try {
    return inspect::parse_tap(text);
  } catch (const Error& error) {
    throw UsageError(where + ": " + error.what());
  }
}

std::vector<TapRequest> parse_taps(const std::vector<std::string>& lists, const std::string& where) {
  std::vector<TapRequest> requests;
  for (const std::string& list : lists) {
    for (const std::string& part : inspect::split_taps(list)) requests.push_back(parse_tap(part, where));
  }
  return requests;
}

void add_tap_names(const TensorMap& values, std::map<std::string, std::string>& metadata) {
  if (values.empty()) return;
  metadata[kTapsOfFile] = joined_keys(values, ",");
}

std::vector<NamedReplacement> replacements_of(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<NamedReplacement> replacements;
  for (const std::string& tensor : tap_names(file)) {
    replacements.push_back({tensor, parse_tap(tensor, path.string()), file.get(tensor)});
    const Tensor& given = replacements.back().value;
    if (!is_floating(given.dtype()))
      throw Error(path.string() + ": " + tensor + ": expected floating numbers, got " + given.str());
  }
  return replacements;
}

void replace_taps(const std::filesystem::path& path, Taps& taps) {
  for (const NamedReplacement& replacement : replacements_of(path)) {
    taps.listen(replacement.request.pattern, replacement.request.selection,
                [given = replacement.value, where = path.string()](const std::string& name, Tensor& value) {
                  if (given.shape() != value.shape()) {
                    throw Error(where + ": " + name + ": expected a replacement of the shape " +
                                value.shape().str() + ", got " + given.shape().str());
                  }
                  value = given.to(value.dtype());
                });
  }
}

void record_taps(const std::vector<TapRequest>& requests, Taps& taps, TensorMap& values) {
  for (const TapRequest& request : requests) {
    taps.listen(request.pattern, request.selection,
                [&values, brackets = request.brackets](const std::string& name, Tensor& value) {
                  values[name + brackets] = value.detach().clone();
                });
  }
}

}  // namespace heed::cli
