// Where the recordings, processors and expected numbers of these tests are (tests/fixtures/sound.py makes
// them).
#pragma once

#include <filesystem>

namespace heed {

inline const std::filesystem::path kFixtures = std::filesystem::path(HEED_FIXTURES) / "sound";

}  // namespace heed
