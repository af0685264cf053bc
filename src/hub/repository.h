// The hub's description of a repository and its files. Answers are not trusted: names become paths of the
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
  std::vector<std::string> files;  // all files, in the hub's order; each is a path inside the snapshot
};

struct RemoteFile {
  std::string name;
  std::string etag;  // name and checksum of the blob
  std::uint64_t size = 0;
};

/// Returns true if a name is a path inside a folder in its only spelling: no "..", not absolute, no
/// backslash, no control character.
bool is_file_name(std::string_view name);
/// Returns true if an ETag can be the name of a blob.
bool is_etag(std::string_view etag);
/// Returns an ETag without its quotes and a leading W/.
std::string plain_etag(std::string_view etag);

/// Parses the answer of /api/models/NAME/revision/REVISION. Throws Error, starting with `where`, if it is not
/// such an answer or names a file that is_file_name() rejects.
Repository parse_repository(std::string_view answer, const std::string& where);

/// Requests the description of a repository at a revision.
Repository ask_repository(Client& client, const std::string& name, const std::string& revision);
/// Requests the description of one of its files.
RemoteFile ask_file(Client& client, const Repository& repository, const std::string& file);

/// Returns the URL of a file at the repository's commit.
std::string file_url(const Settings& settings, const Repository& repository, const std::string& file);

}  // namespace heed::hub
