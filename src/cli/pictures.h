// From captured attention to the requested file or terminal.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "heed/inspect/picture.h"
#include "heed/models/model.h"

namespace heed::cli {

/// Which maps to show. Empty lists mean all.
struct MapChoice {
  std::vector<std::int64_t> layers;
  std::vector<std::int64_t> heads;
  bool mean_of_heads = false;
};

/// Adds the maps of one tap, weights f32 [H, T, S], to a picture. Throws UsageError if a requested head does
/// not exist.
void add_maps(AttentionPicture& picture, const std::string& tap, const std::string& kind, std::int64_t layer,
              const Tensor& weights, const MapChoice& choice);

/// Throws UsageError unless the file's extension is supported: .html .svg .json .npy. Throws Error if its
/// folder is missing.
void check_picture_file(const std::filesystem::path& file);
/// Writes a picture in the format of the file's extension.
void write_picture(const AttentionPicture& picture, const std::filesystem::path& file);

/// Returns FILE with -N before its extension, where N = `index` + 1 counts several files from 1.
std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index);

}  // namespace heed::cli
