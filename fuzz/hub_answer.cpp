// What a hub answers about a repository: no name it gives may lead out of a folder.
#include "hub/repository.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  const std::string where = folder.path().string();
  heed::fuzz::check(folder, [&] {
    const auto repository = heed::hub::parse_repository(heed::fuzz::text_of(data, size), where);
    for (const std::string& name : repository.files) {
      const std::filesystem::path path = (folder.path() / name).lexically_normal();
      if (!path.string().starts_with(where + "/")) ::abort();
    }
  });
  return 0;
}
