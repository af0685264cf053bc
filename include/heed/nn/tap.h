// Taps: named places in a model where a listener may read a value or put another in its stead. Parts offer
// their values with `wants` and `emit`; while nobody listens to a name, the part takes its fused path and
// never builds the value.
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

  /// Listens to every tap whose name matches `pattern`, in which `*` stands for any run of characters.
  void listen(std::string pattern, Listener listener);
  /// Whether anybody listens to this name.
  bool wants(const std::string& name) const;
  /// Hands the value to the listeners of the name, in the order they came. Throws Error when one of them
  /// replaces it with a tensor of another shape or dtype.
  void emit(const std::string& name, Tensor& value);
  /// Throws Error naming every pattern that matched nothing since it was added: a number that silently is
  /// not there looks like a finding.
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
