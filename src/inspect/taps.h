// Taps: their names as users write them, NAME[heads=0:4,queries=3,keys=:8]; the numbers and the layers of
// their values; and values while a text is generated.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/nn/tap.h"

namespace heed::inspect {

/// Row-major numbers of a value.
inline std::vector<double> numbers(const Tensor& x) { return x.detach().to(DType::f64).to_vector<double>(); }

/// The number of a layer's tap, e.g. 3 of decoder.layers.3.out for `decoder.layers.` and `.out`; nothing for
/// another name.
std::optional<std::int64_t> layer_of_tap(const std::string& name, const std::string& prefix,
                                         const std::string& suffix);

/// Throws Error as `what` unless 0 <= position < count.
void check_position(const char* what, std::int64_t position, std::int64_t count);

/// A tap as a user names it.
struct TapRequest {
  std::string pattern;
  std::string brackets;  ///< `[...]` as it was given, or empty
  TapSelection selection;
};

/// The parts of a list; commas in brackets separate nothing.
std::vector<std::string> split_taps(const std::string& list);
/// `3`, `2:5`, `2:` or `:5`: positions from 0, without the last; nullopt for another text.
std::optional<TapRange> tap_range(const std::string& text);
/// Parses a name or pattern with a selection in brackets. Throws Error `expected …, got TEXT`.
TapRequest parse_tap(const std::string& text);

/// Records and replaces values of one row of tokens that are fed in several steps. Positions count from the
/// first token of the text: they are those that one pass over the whole text would have.
class GeneratedTaps {
 public:
  /// Selections in brackets are of the whole text.
  void record(const std::vector<TapRequest>& requests);
  /// Replaces values of the positions that `given` has; of later ones they stay. Messages begin with `where`.
  /// Throws Error for a selection of keys.
  void replace(const TapRequest& request, const Tensor& given, const std::string& where);

  Taps& taps() { return taps_; }
  const Taps& taps() const { return taps_; }
  /// What was recorded, under the names and brackets of the requests: of scores and weights [1, H, T, S] a
  /// key that did not exist at a step is 0 (of scores -inf).
  TensorMap recorded() const;
  /// Numbers that are held so far.
  std::int64_t numbers() const { return numbers_; }

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
  std::int64_t numbers_ = 0;
};

}  // namespace heed::inspect
