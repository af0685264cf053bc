// Taps: named values inside a model that a listener (a callback) can read or replace. Parts publish their
// values with `wants` and `emit`; if a name has no listener, the part uses its fused path and never computes
// the value. A Taps object must not be used by several threads at once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// Called with the tap's full name (`decoder.layers.3.cross_attn.weights`) and its value. Assigning another
/// tensor of the same shape to `value` replaces it for the rest of the forward pass (ablation, patching).
using Listener = std::function<void(const std::string& name, Tensor& value)>;

class Taps {
 public:
  Taps() = default;
  /// Adds to the listeners of `outer` (may be null), which are called first; `outer` must outlive this.
  explicit Taps(Taps* outer) : outer_(outer) {}

  /// Registers a listener for every tap whose name matches `pattern`; `*` matches any characters.
  void listen(std::string pattern, Listener listener);
  /// Whether this name has a listener.
  bool wants(const std::string& name) const;
  /// Calls the listeners of the name, in the order of registration. Throws Error when one of them replaces
  /// the value with a tensor of another shape or dtype.
  void emit(const std::string& name, Tensor& value);
  /// Throws Error naming every pattern that has matched nothing: a misspelled name must not pass as a
  /// measurement.
  void require_all_fired() const;

 private:
  struct Entry {
    std::string pattern;
    Listener listener;
    bool fired = false;
  };
  Taps* outer_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace heed
