// A JSON file of the fixtures.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "reference/temporary_folder.h"

namespace heed {

/// The file parsed; nlohmann::ordered_json keeps the order of its keys.
template <class Json = nlohmann::json>
Json read_json(const std::filesystem::path& file) {
  return Json::parse(slurp(file));
}

}  // namespace heed
