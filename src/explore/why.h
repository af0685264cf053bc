// Why a head attends from a query to a key: its score as a sum over pairs of earlier parts.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>

#include "explore/explored_model.h"
#include "heed/nn/tap.h"

namespace heed::explore {

/// attribute_score() with the listeners of `changes`: the largest pairs, and what each part adds over all of
/// the other side. Throws Error for what has no such score; Canceled once `stop` is true.
nlohmann::json why_json(const ExploredModel& model, const ExploredText& text, const WhyRequest& request,
                        Taps& changes, const std::atomic<bool>& stop);

}  // namespace heed::explore
