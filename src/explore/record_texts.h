// Records what the page asks for when it is opened on texts, without a browser.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "explore/recording.h"

namespace heed::explore {

/// Of every model and text: the run with all maps, queries and keys; then, while they fit, of the head that
/// the page opens on, in every kind of attention, each mistake of the traps, the steps of every query, and a
/// run without it; the flow for every token, with its effects on the likeliest candidates. The n-th target is
/// that of the n-th text; texts without one get the model's own. Throws Error for a model that reads no
/// text, and Canceled once `stop` is true.
void record_texts(Explorer& explorer, Recording& recording, const std::vector<std::string>& texts,
                  const std::vector<std::string>& targets, const std::atomic<bool>& stop);

}  // namespace heed::explore
