// Options of every call that takes many texts: tasks, translation and generation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "heed/error.h"
#include "heed/export.h"

namespace HEED_API heed {

struct TaskOptions {
  /// Padded tokens per batch, which limits memory; a single text may have more. Beam search counts them once
  /// per beam.
  std::int64_t batch_tokens = 4096;
  /// Index of the first text in a longer input. It is added to the indices in callbacks and messages, and
  /// determines the random streams of sampling.
  std::size_t first_index = 0;
  /// Called with a text's index plus first_index and a message if the text was truncated or otherwise
  /// changed, or its result may be incomplete.
  std::function<void(std::size_t index, const std::string& message)> on_warning = {};
  /// Called with a text's index plus first_index and a message if the text cannot be used. Its result is then
  /// empty, and the other texts are processed. Without this callback, such a text is an Error.
  std::function<void(std::size_t index, const std::string& message)> on_error = {};
  /// Cancels the call once true: it throws Canceled. Checked before every layer, and every text.
  const std::atomic<bool>* stop = nullptr;

  /// Calls on_warning, if given, for text `index` of the call.
  void warn(std::size_t index, const std::string& message) const {
    if (on_warning) on_warning(first_index + index, message);
  }
  /// Calls on_error for text `index` of the call. Without it, throws Error `TASK: text N: MESSAGE`, where N
  /// counts from 1.
  void fail(const std::string& task, std::size_t index, const std::string& message) const {
    if (on_error) return on_error(first_index + index, message);
    throw Error(task + ": text " + std::to_string(first_index + index + 1) + ": " + message);
  }
};

}  // namespace heed
