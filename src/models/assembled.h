// What all models have in common, whichever interface they implement: their files.
#pragma once

#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/models/model.h"
#include "models/model_files.h"

namespace heed {

template <class Interface>
class Assembled : public Interface {
 public:
  std::string family() const override { return files_.config.required_string("model_type"); }
  const std::vector<Parameter>& parameters() const override { return files_.weights.parameters(); }
  std::vector<std::string> unknown_settings() const override { return files_.config.unused(); }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    constexpr bool generates =
        std::is_same_v<Interface, DecoderModel> || std::is_same_v<Interface, EncoderDecoderModel>;
    files_.save(directory, dtype, generates);
  }

 protected:
  explicit Assembled(ModelFiles files) : files_(std::move(files)) {}
  const Config& config() const { return files_.config; }

 private:
  ModelFiles files_;
};

}  // namespace heed
