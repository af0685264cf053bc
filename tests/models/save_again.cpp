// save_again FROM TO: loads the model of one directory and saves it to another, for checks of what other
// tools make of it (scripts/reopen-in-transformers.sh).
#include <fmt/core.h>

#include <filesystem>

#include "heed/models/registry.h"

int main(int count, char** arguments) {
  try {
    if (count != 3) throw heed::Error("save_again: expected FROM TO");
    std::filesystem::create_directories(arguments[2]);
    heed::load_model(arguments[1])->save(arguments[2]);
  } catch (const heed::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
