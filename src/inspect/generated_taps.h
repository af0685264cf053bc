// Taps while a text is generated: values of all positions, whichever step of decoding computed them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "inspect/tap_request.h"

namespace heed::inspect {

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
