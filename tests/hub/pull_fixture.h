// Pulls from a FakeHub into a temporary cache.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "heed/io/hub_cache.h"
#include "hub/fake_hub.h"
#include "hub/pull.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed::hub_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct PullTest : testing::Test {
  TemporaryFolder folder;
  FakeHub server;
  hub::Settings settings;
  hub::PullOptions options;

  void SetUp() override {
    ::setenv("NO_PROXY", "127.0.0.1", 1);
    settings.endpoint = server.url();
    settings.cache = folder.path();
    settings.first_delay = 0.01;
    options.model = "owner/model";
  }
  hub::PullResult pull() { return hub::pull(settings, options); }
  std::string error() {
    return error_of([this] { pull(); });
  }
  fs::path repository() const { return folder / "models--owner--model"; }
  fs::path snapshot() const { return repository() / "snapshots" / kCommit; }
  fs::path partial() const { return repository() / "blobs" / (std::string(kWeightsHash) + ".incomplete"); }
  int gets(const std::string& file) { return FakeHub::count(server.storage, "GET", file); }
  /// Returns every path of the cache; links with their targets.
  std::vector<std::string> tree() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      const std::string path = entry.path().lexically_relative(folder.path()).string();
      if (entry.is_symlink()) {
        paths.push_back(path + " -> " + fs::read_symlink(entry.path()).string());
      } else if (entry.is_regular_file()) {
        paths.push_back(path);
      }
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
};

}  // namespace heed::hub_test
