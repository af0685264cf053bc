// preprocessor_config.json: each key is used, known to be irrelevant, or refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/temporary_folder.h"
#include "heed/image/processor.h"

namespace heed {
namespace {

using testing::HasSubstr;

class ImageProcessorErrors : public testing::Test {
 protected:
  /// The message without the file's name, for a ViT with these members.
  std::string error(const std::string& members, const std::string& type = "ViTImageProcessor") {
    const auto file = folder_.path() / "preprocessor_config.json";
    spill(file,
          "{\"image_processor_type\": \"" + type + "\"" + (members.empty() ? "" : ", ") + members + "}");
    const std::string message = error_of([&] { load_image_processor(folder_.path()); });
    if (message.empty()) return message;
    EXPECT_EQ(message.substr(0, file.string().size()), file.string());
    return message.substr(std::min(message.size(), file.string().size() + 2));
  }

  TemporaryFolder folder_;
};

TEST_F(ImageProcessorErrors, Files) {
  const auto file = folder_.path() / "preprocessor_config.json";
  EXPECT_EQ(error_of([&] { load_image_processor(folder_.path()); }),
            file.string() +
                ": not found (it tells how images are resized and normalized; it comes with the model)");
  spill(file, "{}");
  EXPECT_EQ(
      error_of([&] { load_image_processor(folder_.path()); }),
      file.string() +
          ": image_processor_type: expected the name of a class, such as \"ViTImageProcessor\", got nothing");
  spill(file, "[");
  EXPECT_THAT(error_of([&] { load_image_processor(folder_.path()); }), HasSubstr(file.string()));
}

TEST_F(ImageProcessorErrors, Keys) {
  EXPECT_EQ(error(""), "");
  EXPECT_THAT(error("", "OwlViTImageProcessor"),
              HasSubstr("image_processor_type: expected one of BeitImageProcessor, "));
  EXPECT_THAT(error("", "OwlViTImageProcessor"), HasSubstr(", got OwlViTImageProcessor"));
  EXPECT_EQ(error("\"crop_pct\": 0.9"), "crop_pct: expected only settings that heed knows, got one more");
  EXPECT_EQ(error("\"size\": {\"height\": 3, \"width\": 4, \"depth\": 5}"),
            "size.depth: expected only settings that heed knows, got one more");
  EXPECT_EQ(error("\"do_flip_channel_order\": true"),
            "do_flip_channel_order: expected none, as heed does not do this to images, got true");
  EXPECT_EQ(error("\"do_flip_channel_order\": false, \"do_convert_rgb\": null, \"processor_class\": \"X\""),
            "");
  EXPECT_THAT(error("\"auto_map\": {\"AutoImageProcessor\": \"code.py\"}"),
              HasSubstr("auto_map: expected none"));
  EXPECT_THAT(error("\"do_reduce_labels\": true"), HasSubstr("do_reduce_labels: expected only"));
  EXPECT_EQ(error("\"do_reduce_labels\": true", "BeitImageProcessor"), "");
  EXPECT_EQ(error("\"data_format\": \"channels_last\""),
            "data_format: expected \"channels_first\", got \"channels_last\"");
}

TEST_F(ImageProcessorErrors, Values) {
  EXPECT_EQ(error("\"do_resize\": 1"), "do_resize: expected true or false, got 1");
  EXPECT_EQ(error("\"resample\": 6"),
            "resample: expected an integer from 0 to 5, as Pillow numbers its filters, got 6");
  EXPECT_EQ(error("\"resample\": 4", "ViTImageProcessorFast"),
            "resample: expected a filter that torchvision has, 0 to 3, got 4");
  EXPECT_EQ(error("\"resample\": 0", "DINOv3ViTImageProcessor"),
            "resample: expected 2 or 3 (bilinear or bicubic), got 0");
  EXPECT_EQ(error("\"size\": 0"), "size: expected an integer from 1 to 65535, got 0");
  EXPECT_EQ(error("\"size\": {\"height\": 70000, \"width\": 3}"),
            "size.height: expected an integer from 1 to 65535, got 70000");
  for (const char* size : {"{\"height\": 3}", "{}", "{\"longest_edge\": 5}",
                           "{\"shortest_edge\": 5, \"height\": 3, \"width\": 3}", "[3]"})
    EXPECT_THAT(error(std::string("\"size\": ") + size),
                HasSubstr("size: expected height and width, shortest_edge (and longest_edge), or max_height "
                          "and max_width"));
  EXPECT_THAT(error("\"crop_size\": {\"shortest_edge\": 5}"),
              HasSubstr("crop_size: expected height and width"));
  EXPECT_EQ(error("\"do_center_crop\": true"), "crop_size: expected height and width, got nothing");
  EXPECT_EQ(error("\"rescale_factor\": 0"), "rescale_factor: expected a number other than 0, got 0");
  EXPECT_EQ(error("\"image_mean\": [0.5, 0.5]"),
            "image_mean: expected a number, or one for each of 3 channels, got an array of 2");
  EXPECT_EQ(error("\"image_std\": [0.5, 0, 0.5]"), "image_std: expected positive numbers, got an array of 3");
  EXPECT_EQ(error("\"image_mean\": 1e300"), "image_mean: expected finite numbers, got 1e+300");
  EXPECT_EQ(error("\"crop_pct\": 0", "ConvNextImageProcessor"),
            "crop_pct: expected a number from 0.01 to 1, got 0");
  EXPECT_EQ(error("\"size\": [2, 3]", "ConvNextImageProcessor"),
            "size: expected shortest_edge, got an array of 2");
  EXPECT_EQ(error("\"patch_size\": 0", "Siglip2ImageProcessor"),
            "patch_size: expected an integer from 1 to 1024, got 0");
  EXPECT_EQ(error("\"do_rescale\": false", "DINOv3ViTImageProcessor"),
            "do_rescale: expected true, as this class normalizes numbers from 0 to 1, got false");
}

TEST_F(ImageProcessorErrors, Images) {
  EXPECT_EQ(error("\"do_resize\": false"), "");
  const ImageProcessor processor = load_image_processor(folder_.path());
  EXPECT_EQ(error_of([&] { processor(std::span<const Tensor>()); }),
            "ImageProcessor: expected at least one image, got none");
  EXPECT_EQ(error_of([&] {
              processor(Tensor::zeros({3, 4, 4}));
            }),
            "ImageProcessor: expected images u8[height, width, 3], got f32[3, 4, 4]");
  EXPECT_EQ(error_of([&] { processor(Tensor()); }),
            "ImageProcessor: expected images u8[height, width, 3], got an undefined tensor");
  const std::vector<Tensor> sizes{Tensor::zeros({3, 4, 3}, DType::u8), Tensor::zeros({3, 5, 3}, DType::u8)};
  EXPECT_EQ(error_of([&] { processor(sizes); }),
            "ImageProcessor: expected images of one size after resizing, got 3 x 4 and, of image 1, 3 x 5 "
            "(height x "
            "width; give them one at a time)");
  EXPECT_EQ(error("\"do_resize\": false, \"do_pad\": true, \"pad_size\": 4"), "");
  const std::string pad = error_of([&] { load_image_processor(folder_.path())(sizes); });
  EXPECT_THAT(pad, HasSubstr("pad_size: expected at least the size of the images, 3 x 5, got 4 x 4"));
  EXPECT_EQ(error("\"size\": {\"shortest_edge\": 224}"), "");
  const std::string thin = error_of([&] {
    load_image_processor(folder_.path())(Tensor::zeros({1, 60'000, 3}, DType::u8));
  });
  EXPECT_THAT(thin, HasSubstr("size: expected a size of 1 to 67108864 pixels, got 224 x 13440000"));
  EXPECT_EQ(error("\"do_resize\": false", "Siglip2ImageProcessor"), "");
  const std::string patches = error_of([&] { load_image_processor(folder_.path())(sizes[0]); });
  EXPECT_THAT(
      patches,
      HasSubstr("do_resize: expected true, or images of at most 256 whole patches, got one of 3 x 4"));
}

}  // namespace
}  // namespace heed
