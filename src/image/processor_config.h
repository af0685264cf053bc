// The settings of an image processor, and reading them from preprocessor_config.json.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "heed/image/image.h"
#include "heed/io/json.h"

namespace heed {
class ModelFiles;
}

namespace heed::image {

struct Extent {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// One of: height and width; shortest_edge, with a longest_edge or without; max_height and max_width. 0:
/// absent.
struct SizeRule {
  std::int64_t height = 0, width = 0;
  std::int64_t shortest_edge = 0, longest_edge = 0;
  std::int64_t max_height = 0, max_width = 0;
};

/// What a class does beside the steps that all have.
enum class ProcessorKind : std::uint8_t {
  plain,
  crop_fraction,  ///< ConvNext: below 384, resizes to shortest_edge / crop_pct and crops
  floats,         ///< DINOv3: rescales first and resizes without rounding
  patches,        ///< Siglip2: as many patches as fit, of any proportions
};

struct ProcessorSettings {
  std::string type;   // transformers' name of the class
  std::string where;  // the file, for messages
  ProcessorKind kind = ProcessorKind::plain;
  ResizeArithmetic arithmetic = ResizeArithmetic::pillow;

  bool do_resize = true;
  SizeRule size;
  ResizeFilter filter = ResizeFilter::bilinear;
  double crop_fraction = 224.0 / 256.0;
  bool do_center_crop = false;
  Extent crop_size;
  bool do_rescale = true;
  double rescale_factor = 1.0 / 255.0;
  bool do_normalize = true;
  std::array<double, 3> mean{}, std{};
  bool do_pad = false;
  std::optional<Extent> pad_size;  // without: the greatest height and width of the batch
  std::int64_t patch_size = 16, most_patches = 256;
};

/// `type`: the name of the class, perhaps with transformers' endings Fast and Pil.
ProcessorSettings read_processor_settings(const Config& json, std::string type,
                                          std::optional<ResizeArithmetic> arithmetic);

ProcessorSettings load_processor_settings(const ModelFiles& model,
                                          std::optional<ResizeArithmetic> arithmetic);

}  // namespace heed::image
