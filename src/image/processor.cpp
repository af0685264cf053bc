// Resizing, cropping, rescaling and normalizing, as transformers' image processors do it.
#include "heed/image/processor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "heed/error.h"
#include "heed/files/model_files.h"
#include "heed/threads.h"
#include "image/processor_config.h"
#include "image/resample.h"

namespace heed {
namespace image {
namespace {

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

/// short : long as `size` : the result, rounded down.
std::int64_t longer_edge(std::int64_t size, std::int64_t longer, std::int64_t shorter) {
  return whole(static_cast<double>(size * longer) / static_cast<double>(shorter));
}

/// The shortest edge becomes `size`, or less where the longest would exceed `most`.
Extent limited_by_longest(Extent image, std::int64_t size, std::int64_t most) {
  const auto shorter = static_cast<double>(std::min(image.height, image.width));
  const auto longer = static_cast<double>(std::max(image.height, image.width));
  double exact = static_cast<double>(size);
  if (longer / shorter * exact > static_cast<double>(most)) {
    exact = static_cast<double>(most) * shorter / longer;
    size = whole(std::nearbyint(exact));
  }
  if (std::min(image.height, image.width) == size) return image;
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  if (image.width < image.height) return {whole(exact * height / width), size};
  return {size, whole(exact * width / height)};
}

/// The size to which the rule resizes an image.
Extent resized(const SizeRule& rule, Extent image) {
  if (rule.height != 0) return {rule.height, rule.width};
  if (rule.max_height != 0) {
    const double scale = std::min(static_cast<double>(rule.max_height) / static_cast<double>(image.height),
                                  static_cast<double>(rule.max_width) / static_cast<double>(image.width));
    return {whole(static_cast<double>(image.height) * scale),
            whole(static_cast<double>(image.width) * scale)};
  }
  if (rule.longest_edge != 0) return limited_by_longest(image, rule.shortest_edge, rule.longest_edge);
  const std::int64_t longer = longer_edge(rule.shortest_edge, std::max(image.height, image.width),
                                          std::min(image.height, image.width));
  return image.width <= image.height ? Extent{longer, rule.shortest_edge}
                                     : Extent{rule.shortest_edge, longer};
}

/// The greatest size of whole patches, of nearly the image's proportions, with at most `most_patches`.
Extent resized_to_patches(Extent image, std::int64_t patch, std::int64_t most_patches) {
  const auto scaled = [patch](double scale, std::int64_t edge) {
    const double patches = std::ceil(static_cast<double>(edge) * scale / static_cast<double>(patch));
    return std::max(patch, whole(patches) * patch);
  };
  constexpr double kPrecision = 1e-5;
  double low = kPrecision / 10, high = 100;
  while (high - low >= kPrecision) {
    const double scale = (low + high) / 2;
    const std::int64_t patches = (scaled(scale, image.height) / patch) * (scaled(scale, image.width) / patch);
    (patches <= most_patches ? low : high) = scale;
  }
  return {scaled(low, image.height), scaled(low, image.width)};
}

Extent extent_of(const Tensor& image) { return {image.size(0), image.size(1)}; }

/// The middle of an image [height, width, 3], with zeros around where it is smaller. Of an odd number of rows
/// or columns to add, Pillow's classes put the extra one first, torchvision's last.
Tensor center_crop(const Tensor& image, Extent crop, ResizeArithmetic arithmetic) {
  const auto begin_of = [&](std::int64_t have, std::int64_t want) {  // negative: how many zeros come first
    const std::int64_t missing = want - have;
    if (missing <= 0) return -missing / 2;
    return -(arithmetic == ResizeArithmetic::pillow ? (missing + 1) / 2 : missing / 2);
  };
  const Extent have = extent_of(image);
  const std::int64_t top = begin_of(have.height, crop.height), left = begin_of(have.width, crop.width);
  check_output_size("center crop", crop.height, crop.width);
  Tensor result = Tensor::zeros({crop.height, crop.width, 3}, image.dtype());
  const auto pixel = static_cast<std::int64_t>(3 * size_of(image.dtype()));
  const std::int64_t from_x = std::max<std::int64_t>(left, 0), to_x = std::max<std::int64_t>(-left, 0);
  const std::int64_t columns = std::min(have.width, crop.width);
  for (std::int64_t y = 0; y < std::min(have.height, crop.height); ++y) {
    const std::int64_t from_y = y + std::max<std::int64_t>(top, 0),
                       to_y = y + std::max<std::int64_t>(-top, 0);
    std::memcpy(result.raw_data() + (to_y * crop.width + to_x) * pixel,
                image.raw_data() + (from_y * have.width + from_x) * pixel,
                static_cast<std::size_t>(columns * pixel));
  }
  return result;
}

Tensor resize_and_crop(const Tensor& image, const ProcessorSettings& settings) {
  Tensor result = image;
  const auto resize = [&](Extent size) {
    check_output_size((settings.where + ": size").c_str(), size.height, size.width);
    result = result.dtype() == DType::f32
                 ? resize_floats(result, size.height, size.width, settings.filter)
                 : resize_image(result, size.height, size.width, settings.filter, settings.arithmetic);
  };
  constexpr std::int64_t kWholeFrom = 384;  // from this size on, ConvNext uses the whole image
  if (settings.do_resize && settings.kind == ProcessorKind::crop_fraction) {
    const std::int64_t edge = settings.size.shortest_edge;
    if (edge >= kWholeFrom) {
      resize({edge, edge});
    } else {
      const std::int64_t wider = whole(static_cast<double>(edge) / settings.crop_fraction);
      resize(resized({.shortest_edge = wider}, extent_of(image)));
      result = center_crop(result, {edge, edge}, settings.arithmetic);
    }
  } else if (settings.do_resize && settings.kind == ProcessorKind::patches) {
    resize(resized_to_patches(extent_of(image), settings.patch_size, settings.most_patches));
  } else if (settings.do_resize) {
    resize(resized(settings.size, extent_of(image)));
  }
  if (settings.do_center_crop) result = center_crop(result, settings.crop_size, settings.arithmetic);
  return result;
}

/// The number that a level of a channel becomes. Pillow's classes multiply in f64, round to f32 and
/// normalize; torchvision's scale mean and standard deviation instead.
float value_of_level(const ProcessorSettings& settings, int level, std::size_t channel) {
  const auto mean = static_cast<float>(settings.mean[channel]),
             std = static_cast<float>(settings.std[channel]);
  auto value = static_cast<float>(level);
  if (settings.arithmetic == ResizeArithmetic::torchvision) {
    if (!settings.do_normalize)
      return settings.do_rescale ? value * static_cast<float>(settings.rescale_factor) : value;
    const float scale = settings.do_rescale ? static_cast<float>(1.0 / settings.rescale_factor) : 1.0f;
    return (value - mean * scale) / (std * scale);
  }
  if (settings.do_rescale) value = static_cast<float>(level * settings.rescale_factor);
  return settings.do_normalize ? (value - mean) / std : value;
}

using LevelTable = std::array<std::array<float, 256>, 3>;

LevelTable table_of_levels(const ProcessorSettings& settings) {
  LevelTable table{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (int level = 0; level < 256; ++level)
      table[channel][static_cast<std::size_t>(level)] = value_of_level(settings, level, channel);
  }
  return table;
}

/// u8[height, width, 3] to f32[3, height, width] at the upper left of planes of the size `padded`.
void write_planes(const Tensor& image, const LevelTable& table, Extent padded, float* out) {
  const Extent extent = extent_of(image);
  const std::uint8_t* in = image.data<std::uint8_t>();
  parallel_for(extent.height, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::int64_t y = begin; y < end; ++y) {
        const std::uint8_t* row = in + 3 * y * extent.width + c;
        float* to = out + (static_cast<std::int64_t>(c) * padded.height + y) * padded.width;
        for (std::int64_t x = 0; x < extent.width; ++x) to[x] = table[c][row[3 * x]];
      }
    }
  });
}

/// f32[height, width, 3], 0 to 1, to planes, as above.
void write_planes(const Tensor& image, const ProcessorSettings& settings, Extent padded, float* out) {
  const Extent extent = extent_of(image);
  const float* in = image.data<float>();
  for (std::size_t c = 0; c < 3; ++c) {
    const auto mean = static_cast<float>(settings.mean[c]), std = static_cast<float>(settings.std[c]);
    for (std::int64_t y = 0; y < extent.height; ++y) {
      float* to = out + (static_cast<std::int64_t>(c) * padded.height + y) * padded.width;
      for (std::int64_t x = 0; x < extent.width; ++x) {
        const float value = in[3 * (y * extent.width + x) + static_cast<std::int64_t>(c)];
        to[x] = settings.do_normalize ? (value - mean) / std : value;
      }
    }
  }
}

Tensor rescaled(const Tensor& image, double factor) {
  Tensor result = Tensor::empty(image.shape());
  const std::uint8_t* in = image.data<std::uint8_t>();
  float* out = result.data<float>();
  const auto single = static_cast<float>(factor);
  for (std::int64_t i = 0; i < image.numel(); ++i) out[i] = static_cast<float>(in[i]) * single;
  return result;
}

/// The images of a batch, resized and cropped if `fits` is false.
std::vector<Tensor> prepare(std::span<const Tensor> images, const ProcessorSettings& settings, bool fits) {
  if (images.empty()) throw Error("ImageProcessor: expected at least one image, got none");
  std::vector<Tensor> prepared;
  for (const Tensor& image : images) {
    if (!image.defined() || image.dtype() != DType::u8 || image.rank() != 3 || image.size(2) != 3 ||
        image.numel() == 0) {
      throw Error("ImageProcessor: expected images u8[height, width, 3], got " +
                  (image.defined() ? image.str() : "an undefined tensor"));
    }
    const Tensor rows = image.contiguous();
    const Tensor scaled =
        settings.kind == ProcessorKind::floats ? rescaled(rows, settings.rescale_factor) : rows;
    prepared.push_back(fits ? scaled : resize_and_crop(scaled, settings));
  }
  return prepared;
}

/// The size of the batch's planes: that of all images, or where they are padded, of the pad.
Extent common_size(const std::vector<Tensor>& images, const ProcessorSettings& settings) {
  Extent common = extent_of(images.front());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const Extent extent = extent_of(images[i]);
    const bool same = extent.height == common.height && extent.width == common.width;
    if (!same && !settings.do_pad) {
      throw Error("ImageProcessor: expected images of one size after resizing, got " +
                  std::to_string(common.height) + " x " + std::to_string(common.width) + " and, of image " +
                  std::to_string(i) + ", " + std::to_string(extent.height) + " x " +
                  std::to_string(extent.width) + " (height x width; give them one at a time)");
    }
    common = {std::max(common.height, extent.height), std::max(common.width, extent.width)};
  }
  if (!settings.do_pad || !settings.pad_size) return common;
  if (common.height > settings.pad_size->height || common.width > settings.pad_size->width) {
    throw Error(settings.where + ": pad_size: expected at least the size of the images, " +
                std::to_string(common.height) + " x " + std::to_string(common.width) + ", got " +
                std::to_string(settings.pad_size->height) + " x " + std::to_string(settings.pad_size->width));
  }
  return *settings.pad_size;
}

ImageInputs planes(const std::vector<Tensor>& images, const ProcessorSettings& settings) {
  const Extent size = common_size(images, settings);
  check_output_size((settings.where + ": pad_size").c_str(), size.height, size.width);
  const auto batch = static_cast<std::int64_t>(images.size());
  const Shape shape{batch, 3, size.height, size.width};
  ImageInputs inputs{settings.do_pad ? Tensor::zeros(shape) : Tensor::empty(shape), {}, {}};
  const LevelTable table = table_of_levels(settings);
  float* out = inputs.pixel_values.data<float>();
  for (const Tensor& image : images) {
    if (image.dtype() == DType::f32) {
      write_planes(image, settings, size, out);
    } else {
      write_planes(image, table, size, out);
    }
    out += 3 * size.height * size.width;
  }
  return inputs;
}

ImageInputs patches(const std::vector<Tensor>& images, const ProcessorSettings& settings) {
  const auto batch = static_cast<std::int64_t>(images.size());
  const std::int64_t edge = settings.patch_size, most = settings.most_patches;
  const LevelTable table = table_of_levels(settings);
  ImageInputs inputs{Tensor::zeros({batch, most, edge * edge * 3}), Tensor::zeros({batch, most}, DType::i64),
                     Tensor::empty({batch, 2}, DType::i64)};
  for (std::int64_t i = 0; i < batch; ++i) {
    const Tensor& image = images[static_cast<std::size_t>(i)];
    const Extent size = extent_of(image);
    const std::int64_t rows = size.height / edge, columns = size.width / edge;
    if (size.height % edge != 0 || size.width % edge != 0 || rows * columns > most) {
      throw Error(settings.where + ": do_resize: expected true, or images of at most " +
                  std::to_string(most) + " whole patches, got one of " + std::to_string(size.height) + " x " +
                  std::to_string(size.width));
    }
    inputs.spatial_shapes.data<std::int64_t>()[2 * i] = rows;
    inputs.spatial_shapes.data<std::int64_t>()[2 * i + 1] = columns;
    std::fill_n(inputs.pixel_attention_mask.data<std::int64_t>() + i * most, rows * columns, 1);
    const std::uint8_t* in = image.data<std::uint8_t>();
    float* out = inputs.pixel_values.data<float>() + i * most * edge * edge * 3;
    for (std::int64_t patch = 0; patch < rows * columns; ++patch) {
      const std::int64_t top = patch / columns * edge, left = patch % columns * edge;
      for (std::int64_t y = top; y < top + edge; ++y) {
        const std::uint8_t* row = in + 3 * (y * size.width + left);
        for (std::int64_t j = 0; j < 3 * edge; ++j) *out++ = table[static_cast<std::size_t>(j % 3)][row[j]];
      }
    }
  }
  return inputs;
}

/// The planes f32[1, 3, height, width] of the patches of one image.
Tensor of_patches(const Tensor& pixel_values, const Tensor& spatial_shapes,
                  const ProcessorSettings& settings) {
  const std::int64_t edge = settings.patch_size, numbers = edge * edge * 3;
  const std::vector<std::int64_t> grid = spatial_shapes.to(DType::i64).to_vector<std::int64_t>();
  if (settings.kind != ProcessorKind::patches || pixel_values.dtype() != DType::f32 ||
      pixel_values.rank() != 3 || pixel_values.size(0) != 1 || pixel_values.size(2) != numbers ||
      grid.size() != 2 || std::min(grid[0], grid[1]) < 1 || grid[0] > pixel_values.size(1) / grid[1]) {
    throw Error("ImageProcessor: expected pixel_values f32[1, patches, " + std::to_string(numbers) +
                "] with as many patches as spatial_shapes says, got " + pixel_values.str());
  }
  const std::int64_t height = grid[0] * edge, width = grid[1] * edge;
  const Tensor patches = pixel_values.contiguous(), planes = Tensor::empty({1, 3, height, width});
  const float* in = patches.data<float>();
  for (std::int64_t i = 0; i < grid[0] * grid[1] * numbers; ++i) {
    const std::int64_t patch = i / numbers, at = i % numbers, y = patch / grid[1] * edge + at / (3 * edge),
                       x = patch % grid[1] * edge + at / 3 % edge;
    planes.data<float>()[(at % 3 * height + y) * width + x] = in[i];
  }
  return planes;
}

ImageInputs inputs_of(std::span<const Tensor> images, const ProcessorSettings& settings, bool fits) {
  const std::vector<Tensor> prepared = prepare(images, settings, fits);
  return settings.kind == ProcessorKind::patches ? patches(prepared, settings) : planes(prepared, settings);
}

}  // namespace
}  // namespace image

ImageInputs ImageProcessor::operator()(std::span<const Tensor> images) const {
  return image::inputs_of(images, *settings_, false);
}

ImageInputs ImageProcessor::normalize(std::span<const Tensor> images) const {
  return image::inputs_of(images, *settings_, true);
}

Tensor ImageProcessor::picture(const Tensor& pixel_values, const Tensor& spatial_shapes) const {
  if (spatial_shapes.defined()) return picture(image::of_patches(pixel_values, spatial_shapes, *settings_));
  if (pixel_values.dtype() != DType::f32 || pixel_values.rank() != 4 || pixel_values.size(0) != 1 ||
      pixel_values.size(1) != 3)
    throw Error("ImageProcessor: expected pixel_values f32[1, 3, height, width], got " + pixel_values.str());
  const image::ProcessorSettings& s = *settings_;
  const std::int64_t height = pixel_values.size(2), width = pixel_values.size(3), plane = height * width;
  const Tensor pixels = pixel_values.contiguous();
  Tensor shown = Tensor::empty({height, width, 3}, DType::u8);
  for (std::int64_t i = 0; i < 3 * plane; ++i) {
    const auto channel = static_cast<std::size_t>(i % 3);
    double value = pixels.data<float>()[(i % 3) * plane + i / 3];
    if (s.do_normalize) value = value * s.std[channel] + s.mean[channel];
    if (s.do_rescale) value /= s.rescale_factor;
    shown.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0));
  }
  return shown;
}

const std::string& ImageProcessor::type() const { return settings_->type; }
ResizeArithmetic ImageProcessor::arithmetic() const { return settings_->arithmetic; }
ResizeFilter ImageProcessor::filter() const { return settings_->filter; }

ImageProcessor load_image_processor(const ModelFiles& model, std::optional<ResizeArithmetic> arithmetic) {
  return ImageProcessor(
      std::make_shared<const image::ProcessorSettings>(image::load_processor_settings(model, arithmetic)));
}

ImageProcessor load_image_processor(const std::filesystem::path& directory,
                                    std::optional<ResizeArithmetic> arithmetic) {
  return load_image_processor(ModelFiles(directory), arithmetic);
}

ImageProcessor make_image_processor(const Config& config) {
  return ImageProcessor(std::make_shared<const image::ProcessorSettings>(
      image::read_processor_settings(config, config.required_string("image_processor_type"), std::nullopt)));
}

}  // namespace heed
