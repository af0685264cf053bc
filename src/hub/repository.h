// What the hub says about a repository and its files. Its answers are not trusted: names become paths of the
// cache only after these checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hub/client.h"

namespace heed::hub {

struct Repository {
  std::string name;      // owner/model
  std::string revision;  // a branch, tag or commit
  std::string commit;
  std::vector<std::string> files;  // every one, in the hub's order; each a path inside the snapshot
};

struct RemoteFile {
  std::string name;
  std::string etag;  // names the blob, and checks it
  std::uint64_t size = 0;
};

/// Whether a name is a path inside a folder, spelled in one way only: no "..", nothing absolute, no
/// backslash, no control character.
bool is_file_name(std::string_view name);
/// Whether an ETag can be the name of a blob.
bool is_etag(std::string_view etag);
/// An ETag without its quotes and the W/ before them.
std::string plain_etag(std::string_view etag);

/// Reads the answer of /api/models/NAME/revision/REVISION. Throws Error, starting with `where`, when it is no
/// such answer or names a file that is_file_name() refuses.
Repository parse_repository(std::string_view answer, const std::string& where);

/// Asks for a repository at a revision.
Repository ask_repository(Client& client, const std::string& name, const std::string& revision);
/// Asks for one file of it.
RemoteFile ask_file(Client& client, const Repository& repository, const std::string& file);

/// The address of a file at the repository's commit.
std::string file_url(const Settings& settings, const Repository& repository, const std::string& file);

}  // namespace heed::hub
