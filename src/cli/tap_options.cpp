// Parses names of taps and their selections, and connects them to tensors by name.
#include "cli/tap_options.h"

#include <charconv>
#include <optional>

#include "cli/cli.h"
#include "heed/io/safetensors.h"

namespace heed::cli {
namespace {

// The parts of a list; commas in brackets separate nothing.
std::vector<std::string> split_outside_brackets(const std::string& list) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char c : list) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

[[noreturn]] void bad_selection(const std::string& where, const std::string& text) {
  throw UsageError(where + ": expected NAME or NAME[heads=0:4,queries=3,keys=:8], got " + text);
}

std::optional<std::int64_t> index_in(const std::string& digits) {
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < 0) return std::nullopt;
  return value;
}

// "3", "2:5", "2:" or ":5"
std::optional<TapRange> range_in(const std::string& range) {
  const std::size_t colon = range.find(':');
  const std::string begin = range.substr(0, colon);
  const std::optional<std::int64_t> first = begin.empty() ? 0 : index_in(begin);
  if (!first || range.empty()) return std::nullopt;
  if (colon == std::string::npos) return TapRange{*first, *first + 1};
  if (colon + 1 == range.size()) return TapRange{*first, std::nullopt};
  const std::optional<std::int64_t> end = index_in(range.substr(colon + 1));
  if (!end || *end <= *first) return std::nullopt;
  return TapRange{*first, end};
}

constexpr const char* kTapsOfFile = "taps";  // in the metadata: names, separated by commas

std::vector<std::string> tap_names(const SafetensorsFile& file) {
  const auto named = file.metadata().find(kTapsOfFile);
  if (named != file.metadata().end()) return split_outside_brackets(named->second);
  std::vector<std::string> names;
  for (const TensorInfo& info : file.tensors()) names.push_back(info.name);
  return names;
}

}  // namespace

TapRange parse_positions(const std::string& text, const std::string& option) {
  const std::optional<TapRange> range = range_in(text);
  if (!range) throw UsageError(option + ": expected positions like 3, 2:5, 2: or :5, got " + text);
  return *range;
}

TapRequest parse_tap(const std::string& text, const std::string& where) {
  const std::size_t open = text.find('[');
  TapRequest request{text.substr(0, open), open == std::string::npos ? "" : text.substr(open), {}};
  if (request.pattern.empty()) bad_selection(where, text);
  if (request.brackets.empty()) return request;
  if (!text.ends_with("]")) bad_selection(where, text);
  const std::string inside = request.brackets.substr(1, request.brackets.size() - 2);
  for (const std::string& part : split_outside_brackets(inside)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) bad_selection(where, text);
    const std::string axis = part.substr(0, equals);
    const std::optional<TapRange> range = range_in(part.substr(equals + 1));
    if (!range) bad_selection(where, text);
    if (axis == "queries") {
      request.selection.queries = *range;
    } else if (axis == "keys") {
      request.selection.keys = *range;
    } else if (axis == "heads" && range->end) {
      for (std::int64_t head = range->begin; head < *range->end; ++head)
        request.selection.heads.push_back(head);
    } else {
      bad_selection(where, text);
    }
  }
  return request;
}

std::vector<TapRequest> parse_taps(const std::vector<std::string>& lists, const std::string& where) {
  std::vector<TapRequest> requests;
  for (const std::string& list : lists) {
    for (const std::string& part : split_outside_brackets(list)) requests.push_back(parse_tap(part, where));
  }
  return requests;
}

void add_tap_names(const TensorMap& values, std::map<std::string, std::string>& metadata) {
  if (values.empty()) return;
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : ",") + name;
  metadata[kTapsOfFile] = names;
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
