// Taps while a text is generated: values of all positions, whichever step of decoding computed them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/tap_options.h"

namespace heed::cli {

/// Records and replaces values of one row of tokens that are fed in several steps. Positions count from the
/// first token of the text: they are those that one pass over the whole text would have.
class GeneratedTaps {
 public:
  /// Selections in brackets are of the whole text.
  void record(const std::vector<TapRequest>& requests);
  /// Replaces values as replace_taps(), of the positions that the file has; of later ones they stay. Throws
  /// Error for a selection of keys.
  void replace(const std::filesystem::path& file);

  Taps& taps() { return taps_; }
  /// What was recorded, under the names and brackets of the requests: of scores and weights [1, H, T, S] a
  /// key that did not exist at a step is 0 (of scores -inf).
  TensorMap recorded() const;

 private:
  struct Piece {
    std::int64_t first;  // position of the first token
    Tensor value;
  };
  struct Recorded {
    TapSelection selection;
    std::vector<Piece> pieces;
  };

  Taps taps_;
  std::map<std::string, Recorded> recorded_;  // by name and brackets
};

}  // namespace heed::cli
