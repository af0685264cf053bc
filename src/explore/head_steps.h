// One head step by step: what it computes for one query, number by number.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>

#include "explore/explored_model.h"
#include "heed/nn/tap.h"

namespace heed::explore {

/// One forward pass, with the listeners of `changes` before. Throws Error for a head or query that the model
/// does not have, and for an attention without a softmax of scores; Canceled once `stop` is true.
nlohmann::json head_steps_json(const ExploredModel& model, const ExploredText& text,
                               const StepsRequest& request, Taps& changes, const std::atomic<bool>& stop);

}  // namespace heed::explore
