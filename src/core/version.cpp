// The version that the library was built as.
#include "heed/version.h"

namespace heed {

const char* version() { return HEED_VERSION; }

}  // namespace heed
