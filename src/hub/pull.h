// heed pull: a model from the hub into the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/choice.h"
#include "hub/settings.h"

namespace heed::hub {

struct PullProgress {
  std::uint64_t done = 0;      // bytes there, those of earlier attempts included
  std::uint64_t total = 0;     // bytes of all files known so far
  std::uint64_t received = 0;  // bytes that came over the network
  std::size_t files = 0;
};

struct PullOptions {
  std::string model;  // owner/model
  std::string revision = "main";
  Patterns patterns;
  const std::atomic<bool>* stop = nullptr;  // set: end soon with Stopped
  // Called by one thread at a time.
  std::function<void(const PullProgress&)> on_progress;
  std::function<void(const std::string&)> on_message;
};

struct PullResult {
  std::string commit;
  std::filesystem::path path;  // of the snapshot
  std::vector<std::string> files;
  std::uint64_t bytes = 0;     // of all files
  std::uint64_t received = 0;  // of those, what came over the network now
};

/// Downloads what of the model is not in the cache yet. With Settings::offline, finds it in the cache or
/// throws. Throws Error for every failure, in one line with what to do, and Stopped; what is downloaded so
/// far is kept, and the next call resumes.
PullResult pull(const Settings& settings, const PullOptions& options);

}  // namespace heed::hub
