// Runs that change one layer of a model: they begin there, with what an earlier run gave to it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/nn/tap.h"
#include "nn/stack_resume.h"

namespace heed::inspect {

/// What each layer of a model was given in a run, and what the last one gave: [B, T, D].
class LayerInputs {
 public:
  /// Hears them, if the model has stacks of layers. This must outlive the run.
  void listen(const Model& model, Taps& taps);
  /// While the result exists, a run whose rows are these rows of the earlier one begins at the layer of the
  /// stack; that of a decoder skips its encoder. Empty, and the run begins at its input, for other models.
  std::vector<std::unique_ptr<StackResume>> resume(const std::string& stack, std::int64_t layer,
                                                   const std::vector<std::int64_t>& rows) const;

  /// What the last layer of the stack gave in those rows.
  Tensor end(const std::string& stack, const std::vector<std::int64_t>& rows) const;

 private:
  Tensor rows_at(const std::string& stack, std::int64_t layer, const std::vector<std::int64_t>& rows) const;

  std::map<std::string, std::vector<Tensor>> inputs_;  // by stack
};

}  // namespace heed::inspect
