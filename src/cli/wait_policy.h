// How long idle threads spin before they sleep.
#pragma once

namespace heed::cli {

/// Has OpenMP's threads spin briefly, unless the environment says how they wait. Called first thing in main.
void spin_briefly(char** argv);

}  // namespace heed::cli
