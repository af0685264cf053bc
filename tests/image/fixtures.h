// Where the images, processors and expected pixels of these tests are (tests/fixtures/image.py makes them).
#pragma once

#include <filesystem>

namespace heed {

inline const std::filesystem::path kFixtures = std::filesystem::path(HEED_FIXTURES) / "image";

}  // namespace heed
