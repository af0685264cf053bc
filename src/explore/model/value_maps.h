// The norms ||f(x)|| of transformed values, f(x) = v W_O of one head, without the product v W_O: ||v W||^2 =
// v G v^T, G = W W^T. A model that is explored keeps its weights, so each G is made once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heed/inspect/record.h"
#include "heed/models/model.h"

namespace heed::explore {

class ValueMaps {
 public:
  ValueMaps() = default;
  /// Runs the model once, on as many tokens as a value has elements, with identity matrices instead of
  /// the values. Holds nothing where the model allows fewer tokens, or a layer of `layers` has no such
  /// values.
  ValueMaps(const Model& model, const std::vector<RecordedLayer>& layers);

  bool empty() const { return products_.empty(); }
  /// [H, S] of a layer whose values [K, S, d] were recorded.
  Tensor norms(const RecordedLayer& layer) const;

 private:
  std::map<std::string, Tensor, std::less<>> products_;  // G [H, d, d], by the name of the part
};

}  // namespace heed::explore
