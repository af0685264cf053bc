// OpenMP's threads spin while they wait, by default. With as many threads as processors and another program
// busy, they spin against the very thread they wait for: training was measured 20 times slower. Threads that
// sleep cost little, so the command asks for those, unless the user's environment says otherwise.
//
// The OpenMP library reads its settings when it is loaded, before main and before any constructor here; the
// pre-initialisation array is what runs earlier.
#include <cstdlib>

namespace {

void sleep_while_waiting(int, char**, char**) {
  if (std::getenv("GOMP_SPINCOUNT") == nullptr) setenv("OMP_WAIT_POLICY", "passive", 0);
}

__attribute__((section(".preinit_array"), used)) void (*const before_libraries)(int, char**,
                                                                                char**) = sleep_while_waiting;

}  // namespace
