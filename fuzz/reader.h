// What the fuzzers share: a folder in memory that holds the bytes they are given as files, and the rule that
// every reader obeys: whatever a file holds, reading it succeeds or throws an Error that names the file.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

#include "heed/error.h"

namespace heed::fuzz {

class Folder {
 public:
  Folder() {
    std::string name =
        ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/heed_fuzz_XXXXXX" : "/tmp/heed_fuzz_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ::abort();
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void put(const char* name, std::string_view bytes) const {
    std::ofstream file(path_ / name, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  /// Files from one input: a line %%%% stands between their contents, in the order of `names`. Those it has
  /// nothing for are not there.
  void put_parts(std::initializer_list<const char*> names, std::string_view bytes) const {
    constexpr std::string_view kMark = "\n%%%%\n";
    bool there = true;
    for (const char* name : names) {
      const std::size_t end = bytes.find(kMark);
      if (there) {
        put(name, bytes.substr(0, end));
      } else {
        std::filesystem::remove(path_ / name);
      }
      there = end != bytes.npos;
      bytes.remove_prefix(there ? end + kMark.size() : bytes.size());
    }
  }

 private:
  std::filesystem::path path_;
};

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A safetensors file without tensors.
inline std::string_view no_tensors() { return std::string_view("\2\0\0\0\0\0\0\0{}", 10); }

/// Runs `read` and stops the program when it throws an Error that does not name what it read. Whatever else
/// it throws or does, the fuzzer sees by itself.
template <class Read>
void check(const Folder& folder, Read read) {
  try {
    read();
  } catch (const Error& error) {
    if (std::string_view(error.what()).find(folder.path().string()) != std::string_view::npos) return;
    std::fprintf(stderr, "an error that names no file: %s\n", error.what());
    ::abort();
  }
}

}  // namespace heed::fuzz
