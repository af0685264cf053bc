// A copy of a fixture's files that a test may change.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "heed/doctor.h"
#include "heed/models/registry.h"

namespace heed {

/// The finding of one check.
inline Finding found(const CheckedModel& checked, const std::string& check) {
  return examine(checked, {}, {check}).at(0).finding;
}

/// Removed at the end.
class Copy {
 public:
  explicit Copy(const std::string& fixture)
      : path_(std::filesystem::temp_directory_path() / ("heed_doctor_test_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(HEED_FIXTURES) / fixture)) {
      if (entry.is_regular_file()) std::filesystem::copy_file(entry.path(), path_ / entry.path().filename());
    }
  }
  ~Copy() { std::filesystem::remove_all(path_); }
  Copy(const Copy&) = delete;

  const std::filesystem::path& path() const { return path_; }
  nlohmann::json json(const char* file) const { return nlohmann::json::parse(std::ifstream(path_ / file)); }
  void write(const char* file, const nlohmann::json& json) const { std::ofstream(path_ / file) << json; }
  /// Changes members of a file.
  void update(const char* file, const nlohmann::json& members) const {
    nlohmann::json changed = std::filesystem::exists(path_ / file) ? json(file) : nlohmann::json::object();
    changed.update(members);
    write(file, changed);
  }
  Finding finding(const std::string& check, const std::string& text = {}) const {
    const auto model = load_model(path_);
    const auto tokenizer =
        std::filesystem::exists(path_ / "tokenizer.json") ? load_tokenizer(path_) : nullptr;
    return found({.model = model.get(), .tokenizer = tokenizer.get(), .directory = path_, .text = text},
                 check);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace heed
