// The version of heed. The build reads it from here.
#pragma once

#include "heed/export.h"

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0
/// The version of the headers as text: "0.1.0".
#define HEED_VERSION "0.1.0"

namespace HEED_API heed {

/// Returns HEED_VERSION of the library that the program runs with; it differs from the macro's if another
/// library was built in the meantime.
const char* version();

}  // namespace heed
