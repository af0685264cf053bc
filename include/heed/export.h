// HEED_API marks what a shared libheed exports: a public header opens `namespace HEED_API heed`. All else is
// hidden, and may change in every release.
#pragma once

#define HEED_API [[gnu::visibility("default")]]
