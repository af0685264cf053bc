// The flow through a model for one token: what each head and feed-forward network adds to the residual
// stream, and to the logit of a candidate.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>

#include "explore/explored_model.h"
#include "heed/nn/tap.h"

namespace heed::explore {

/// One forward pass, with the listeners of `changes` before. Throws Error for a stack, position or candidate
/// that the model does not have; Canceled once `stop` is true.
nlohmann::json flow_json(const ExploredModel& model, const ExploredText& text, const FlowRequest& request,
                         Taps& changes, const std::atomic<bool>& stop);

}  // namespace heed::explore
