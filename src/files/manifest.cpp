// Writes and compares the checksums of a folder's files.
#include "files/manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <vector>

#include "files/checksum.h"
#include "heed/error.h"
#include "heed/files/file.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kFirstLine =
    "Every file of this folder was written before this one. Bytes, CRC-32C, name:\n";
constexpr std::string_view kEarlierVersions = "Every file of this folder was written before this one.\n";
constexpr std::size_t kLargestManifest = std::size_t{1} << 20;

std::string hexadecimal(std::uint32_t crc) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", static_cast<unsigned>(crc));
  return text.data();
}

struct Entry {
  files::FileSum sum;
  fs::path name;
};

// Parses "BYTES CRC NAME". Returns false for anything else.
bool parse(std::string_view line, Entry& entry) {
  const char* const end = line.data() + line.size();
  const auto bytes = std::from_chars(line.data(), end, entry.sum.bytes);
  if (bytes.ec != std::errc() || bytes.ptr == end || *bytes.ptr != ' ') return false;
  const auto crc = std::from_chars(bytes.ptr + 1, end, entry.sum.crc, 16);
  if (crc.ec != std::errc() || crc.ptr == end || *crc.ptr != ' ') return false;
  entry.name = std::string(crc.ptr + 1, end);
  return !entry.name.empty() && entry.name.is_relative() && *entry.name.begin() != ".." &&
         entry.name == entry.name.lexically_normal();
}

}  // namespace

std::string files::manifest_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const bool fits = entry.path().filename().string().find('\n') == std::string::npos;
    if (entry.is_regular_file() && !entry.is_symlink() && fits) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string text(kFirstLine);
  for (const fs::path& file : files) {
    const FileSum sum = sum_of_file(file);
    text += std::to_string(sum.bytes) + " " + hexadecimal(sum.crc) + " " +
            file.lexically_relative(folder).string() + "\n";
  }
  return text;
}

void verify_directory(const fs::path& directory) {
  const fs::path manifest = directory / files::kManifest;
  const std::string text = read_file(manifest, kLargestManifest);
  if (text == kEarlierVersions) return;
  if (!text.starts_with(kFirstLine)) {
    throw Error(manifest.string() +
                ": expected a list of checksums, got something else (the file is damaged)");
  }
  std::size_t number = 1;
  for (std::size_t begin = kFirstLine.size(); begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    Entry entry;
    if (!parse(line, entry)) {
      throw Error(manifest.string() + ":" + std::to_string(number) +
                  ": expected length, checksum and name of a file, got something else (the file is damaged)");
    }
    const files::FileSum found = files::sum_of_file(directory / entry.name);
    if (found == entry.sum) continue;
    throw Error((directory / entry.name).string() + ": expected the " + std::to_string(entry.sum.bytes) +
                " bytes of CRC-32C " + hexadecimal(entry.sum.crc) + " that were written, got " +
                std::to_string(found.bytes) + " of " + hexadecimal(found.crc) +
                ": the file is damaged or was changed");
  }
}

}  // namespace heed
