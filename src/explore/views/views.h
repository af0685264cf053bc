// The views of a run that are computed on their own: each answers as JSON. All throw Canceled once `stop` is
// true.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "explore/model/explored_model.h"

namespace heed::explore {

/// One forward pass, with the listeners of `changes` before. Throws Error for a stack, position or candidate
/// that the model does not have; Canceled once `stop` is true.
nlohmann::json flow_json(const ExploredModel& model, const ExploredText& text, const FlowRequest& request,
                         Taps& changes, const std::atomic<bool>& stop);

/// One forward pass, with the listeners of `changes` before. Throws Error for a head or query that the model
/// does not have, and for an attention without a softmax of scores; Canceled once `stop` is true.
nlohmann::json head_steps_json(const ExploredModel& model, const ExploredText& text,
                               const StepsRequest& request, Taps& changes, const std::atomic<bool>& stop);

/// attribute_score() with the listeners of `changes`: the largest pairs, and what each part adds over all of
/// the other side. Throws Error for what has no such score; Canceled once `stop` is true.
nlohmann::json why_json(const ExploredModel& model, const ExploredText& text, const WhyRequest& request,
                        Taps& changes, const std::atomic<bool>& stop);

/// Runs a text soundly and with the mistakes. They are made by listeners that replace values of taps, so that
/// the model itself has no switch for them:
///   positions      every token has the position of the first, and scores have no terms of positions
///   mask           a decoder's tokens attend to later ones too
///   softmax-axis   weights are the softmax over the queries in place of the keys
///   scale          scores are products of queries and keys, not multiplied by anything
///   exchange       two tokens of the (source) text change places
/// Throws Error for a mistake that the model cannot make; Canceled once `stop` is true.
nlohmann::json mistakes_json(const ExploredModel& model, const ExploredText& text,
                             const MistakesRequest& request, const std::atomic<bool>& stop);

/// Row-major numbers of a value, whatever its dtype, as the page reads them exactly: f32, little-endian, in
/// base64.
std::string row_bytes(const Tensor& x);

}  // namespace heed::explore
