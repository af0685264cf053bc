// heed pull: downloads a model from the hub into the cache.
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
  std::uint64_t done = 0;      // bytes present, including those of earlier attempts
  std::uint64_t total = 0;     // bytes of all files known so far
  std::uint64_t received = 0;  // bytes that came over the network
  std::size_t files = 0;
};

struct PullOptions {
  std::string model;  // owner/model
  std::string revision = "main";
  Patterns patterns;
  const std::atomic<bool>* stop = nullptr;  // if set, pull() soon throws Stopped
  // Called by one thread at a time.
  std::function<void(const PullProgress&)> on_progress;
  std::function<void(const std::string&)> on_message;
};

struct PullResult {
  std::string commit;
  std::filesystem::path path;  // the snapshot
  std::vector<std::string> files;
  std::uint64_t bytes = 0;     // of all files
  std::uint64_t received = 0;  // bytes of them that came over the network in this call
};

/// Downloads the files of the model that are not in the cache yet. With Settings::offline, finds the model in
/// the cache or throws. Throws Error for every failure, as one line with what to do, and Stopped. What has
/// been downloaded is kept, and the next call resumes.
PullResult pull(const Settings& settings, const PullOptions& options);

}  // namespace heed::hub
