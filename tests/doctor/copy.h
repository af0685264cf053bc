// A copy of a fixture's files that a test may change.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "heed/doctor.h"
#include "heed/models/find_model.h"
#include "heed/models/registry.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {

/// The finding of one check.
inline Finding found(const CheckedModel& checked, const std::string& check) {
  return examine(checked, {}, {check}).at(0).finding;
}

/// Expects a status, and words of the measurement.
inline void expect_finding(const Finding& finding, CheckStatus status, const std::string& words) {
  EXPECT_EQ(finding.status, status) << finding.measurement;
  EXPECT_THAT(finding.measurement, testing::HasSubstr(words));
}

class Copy {
 public:
  explicit Copy(const std::string& fixture) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(HEED_FIXTURES) / fixture)) {
      if (entry.is_regular_file())
        std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename());
    }
  }

  const std::filesystem::path& path() const { return folder_; }
  nlohmann::json json(const char* file) const { return read_json(folder_ / file); }
  void write(const char* file, const nlohmann::json& json) const { spill(folder_ / file, json.dump()); }
  /// Changes members of a file.
  void update(const char* file, const nlohmann::json& members) const {
    nlohmann::json changed = std::filesystem::exists(folder_ / file) ? json(file) : nlohmann::json::object();
    changed.update(members);
    write(file, changed);
  }
  Finding finding(const std::string& check, const std::string& text = {}) const {
    const auto model = load_model(folder_);
    const auto tokenizer =
        std::filesystem::exists(folder_ / "tokenizer.json") ? load_tokenizer(folder_) : nullptr;
    return found(
        {.model = model.get(), .tokenizer = tokenizer.get(), .files = model_files(folder_), .text = text},
        check);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace heed
