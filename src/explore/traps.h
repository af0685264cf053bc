// Mistakes of attention, made on purpose: what they change in a map, a prediction and the loss.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>

#include "explore/explored_model.h"

namespace heed::explore {

/// Runs a text soundly and with the mistakes. They are made by listeners that replace values of taps, so that
/// the model itself has no switch for them:
///   positions      every token has the position of the first, and scores have no terms of positions
///   mask           a decoder's tokens attend to later ones too
///   softmax-axis   weights are the softmax over the queries in place of the keys
///   scale          scores are products of queries and keys, not multiplied by anything
///   exchange       two tokens of the (source) text change places
/// Throws Error for a mistake that the model cannot make; Canceled once `stop` is true.
nlohmann::json traps_json(const ExploredModel& model, const ExploredText& text, const TrapsRequest& request,
                          const std::atomic<bool>& stop);

}  // namespace heed::explore
