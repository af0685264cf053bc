// From captured attention to the requested file or terminal.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "heed/models/model.h"
#include "heed/plot/picture.h"

namespace heed::cli {

/// Which maps to show. Empty lists mean all.
struct MapChoice {
  std::vector<std::int64_t> layers;
  std::vector<std::int64_t> heads;
  bool mean_of_heads = false, max_of_heads = false;
};

/// Returns the chosen heads of `count`. Throws UsageError if one does not exist.
std::vector<std::int64_t> chosen_heads(const MapChoice& choice, std::int64_t count);

/// Adds the maps of one measure of a layer, weights f32 [H, T, S], to a picture; `tap` may end in `.weights`.
/// Throws UsageError if a requested head does not exist.
void add_maps(AttentionPicture& picture, const std::string& tap, const std::string& kind, std::int64_t layer,
              const Tensor& weights, const MapChoice& choice, const std::string& measure = "weights");

/// Throws UsageError unless the file's extension is supported: .html .svg .png .json .npy. Throws Error if
/// its folder is missing.
void check_picture_file(const std::filesystem::path& file);
/// Writes a picture in the format of the file's extension.
void write_picture(const AttentionPicture& picture, const std::filesystem::path& file,
                   const FigureStyle& style = {});

/// Returns FILE with -N before its extension, where N = `index` + 1 counts several files from 1.
std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index);

}  // namespace heed::cli
