// Attention along the time of a recording: below its spectrogram a row for each word, with the beginning and
// end of the word marked where they are known, and the seconds below all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/plot/picture.h"
#include "plot/canvas.h"
#include "plot/color.h"

namespace heed::plot {

/// Row `row` of a map in `columns` columns: of the keys in each, the number of the largest magnitude. NaN if
/// one of them is.
std::vector<float> in_columns(const AttentionMap& map, std::int64_t row, std::int64_t columns);

/// Where a time of the recording is, as a share of the columns from left to right; from 0 to 1.
double share_of_time(const RecordedSound& sound, double seconds);

/// Whether the time of a word is known.
bool has_times(const RecordedSound& sound);

/// Times to write below `width` columns or units, of which a label takes about `label`: multiples of 1, 2 or
/// 5 times a power of ten.
struct TimeTick {
  double share = 0;
  std::string text;  // "2.5 s" of the first, then the number alone
};
std::vector<TimeTick> time_ticks(const RecordedSound& sound, double width, double label);

/// Draws the spectrogram, the map's rows below it and the words' times over them.
void draw_along_time(const PlacedMap& placed, Canvas& canvas);
/// Draws the seconds below a map, which may also lie over the spectrogram.
void draw_time_axis(const Section& section, double left, double top, Canvas& canvas);

}  // namespace heed::plot
