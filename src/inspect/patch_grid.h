// Images and sounds as inputs whose positions are parts: a patch of the image, a frame of the sound. Where
// the parts are, how they are called, and the picture that they are parts of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/models/input.h"
#include "heed/models/model.h"
#include "heed/plot/picture.h"

namespace heed::inspect {

/// The keys of an image or a sound: rows and columns of its parts, after `first` other positions.
struct PatchGrid {
  std::int64_t rows = 0, columns = 0, first = 0;
  std::int64_t positions() const { return first + rows * columns; }
};

/// Returns the patches or frames that a model of this input makes of tensors, one row each, or nullopt for
/// other tensors.
std::optional<PatchGrid> patch_grid(const InputSpec& input, const TensorMap& tensors);

/// The names of all positions: `[CLS]`, `[DIST]`, `[REG1]`; patches of an image by row and column; of a sound
/// by time, from `start` in seconds on, and, where its spectrogram has several rows of patches, their number
/// from the lowest.
std::vector<std::string> part_labels(const InputSpec& input, const TensorMap& tensors, const PatchGrid& grid,
                                     double start = 0);

/// What the parts are of. `seen` is what the model sees of an image file; without it, and of a sound, the
/// tensor itself is drawn: pixels, or a spectrogram, dark where it is loud, low frequencies at the bottom,
/// which is computed of samples; patches are not.
InputImage picture_of_parts(const InputSpec& input, const TensorMap& tensors, const PatchGrid& grid,
                            InputImage seen = {});

}  // namespace heed::inspect
