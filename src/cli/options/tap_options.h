// Taps on the command line: NAME[heads=0:4,queries=3,keys=:8].
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/nn/tap.h"
#include "inspect/taps.h"

namespace heed::cli {

using inspect::TapRequest;

/// Parses `3`, `2:5`, `2:` or `:5`: positions from 0, without the last. Throws UsageError naming `option`.
TapRange parse_positions(const std::string& text, const std::string& option);
/// Parses a name or pattern with a selection in brackets. Throws UsageError naming `where`.
TapRequest parse_tap(const std::string& text, const std::string& where);
/// The same for several, separated by commas.
std::vector<TapRequest> parse_taps(const std::vector<std::string>& lists, const std::string& where);

/// The tensors of a safetensors file that replace values of taps: all of it, or, where the file names its
/// taps (add_tap_names), those alone.
struct NamedReplacement {
  std::string tensor;
  TapRequest request;
  Tensor value;
};
/// Throws Error naming file and tensor for one that is not of floating numbers.
std::vector<NamedReplacement> replacements_of(const std::filesystem::path& file);

/// Adds the names of recorded values to the metadata of the file that they are written to.
void add_tap_names(const TensorMap& values, std::map<std::string, std::string>& metadata);
/// Replaces the values of the taps that replacements_of() names.
void replace_taps(const std::filesystem::path& file, Taps& taps);
/// Collects the values of the requested taps in `values`, under their names and brackets.
void record_taps(const std::vector<TapRequest>& requests, Taps& taps, TensorMap& values);

}  // namespace heed::cli
