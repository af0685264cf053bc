// Preprocessing of images: resizing, cropping and normalizing, as the model's `preprocessor_config.json`
// says.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "heed/export.h"
#include "heed/image/image.h"
#include "heed/io/json.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class ModelFiles;

namespace image {
struct ProcessorSettings;
}

/// The inputs of an image model.
struct ImageInputs {
  /// f32[batch, 3, height, width]. For a model that takes images of any proportions (Siglip2ImageProcessor):
  /// f32[batch, patches, patch_size² · 3], each patch in the order row, column, channel, with zeros after the
  /// last.
  Tensor pixel_values;
  Tensor pixel_attention_mask;  ///< for such a model: i64[batch, patches], 0 for padding; else undefined
  Tensor spatial_shapes;  ///< for such a model: i64[batch, 2], rows and columns of patches; else undefined
};

/// Threads: several may use one object at once.
class ImageProcessor {
 public:
  /// Returns the inputs for images u8[height, width, 3] (load_image()), in their order. The steps are those
  /// of transformers' processor classes, in this order, each if the configuration says so: resize (to levels
  /// of 8 bits), center crop (padded with 0 where the image is smaller), multiply by `rescale_factor`,
  /// subtract the mean and divide by the standard deviation of each channel, pad with 0 below and to the
  /// right. DINOv3ViTImageProcessor rescales first and resizes without rounding.
  ///
  /// Pixels are equal to transformers' to the last bit, those of DINOv3 within 1e-5. Throws Error for no
  /// images, another dtype or shape, and images that have different sizes at the end.
  ImageInputs operator()(std::span<const Tensor> images) const;
  /// The same for one image; the batch is 1.
  ImageInputs operator()(const Tensor& image) const { return (*this)(std::span(&image, 1)); }

  /// The same without resizing and cropping, for images that already have the model's size, such as the
  /// random crops of training.
  ImageInputs normalize(std::span<const Tensor> images) const;

  /// The image in one row of pixel_values, u8[height, width, 3]: a photograph as the model sees it. The row
  /// is [1, 3, height, width], or at least as many patches as `spatial_shapes` i64[1, 2] says. Throws Error
  /// for another shape.
  Tensor picture(const Tensor& pixel_values, const Tensor& spatial_shapes = {}) const;

  /// transformers' name of the class, such as "ViTImageProcessor".
  const std::string& type() const;
  /// The arithmetic of resizing.
  ResizeArithmetic arithmetic() const;
  ResizeFilter filter() const;

 private:
  friend ImageProcessor load_image_processor(const ModelFiles&, std::optional<ResizeArithmetic>);
  friend ImageProcessor make_image_processor(const Config&);
  explicit ImageProcessor(std::shared_ptr<const image::ProcessorSettings> settings)
      : settings_(std::move(settings)) {}

  std::shared_ptr<const image::ProcessorSettings> settings_;
};

/// Reads `image_processor` in `processor_config.json` or, if that is missing, `preprocessor_config.json` of a
/// model's directory. The class is that of `image_processor_type`, of `feature_extractor_type` in older
/// files, or else that of the `model_type` in config.json: BeitImageProcessor, BitImageProcessor (DINOv2),
/// BlipImageProcessor, ChineseCLIPImageProcessor, CLIPImageProcessor, ConvNextImageProcessor,
/// DeiTImageProcessor, DINOv3ViTImageProcessor, SiglipImageProcessor, Siglip2ImageProcessor or
/// ViTImageProcessor. Settings that the file lacks are the defaults of that class.
///
/// `arithmetic` chooses the library whose resizing is reproduced. The default is Pillow, or torchvision if
/// the name of the class ends in "Fast" or the class has no other (DINOv3). Throws Error naming the file, and
/// the key if possible, for a missing file, another class, a value out of range, and a key that heed does not
/// know.
ImageProcessor load_image_processor(const std::filesystem::path& directory,
                                    std::optional<ResizeArithmetic> arithmetic = std::nullopt);
ImageProcessor load_image_processor(const ModelFiles& model,
                                    std::optional<ResizeArithmetic> arithmetic = std::nullopt);

/// The same from the contents of such a file, which must name its class.
ImageProcessor make_image_processor(const Config& config);

}  // namespace heed
