// Image processors: each class and both arithmetics, equal to transformers (tests/fixtures/image/README.md).
#include "heed/image/processor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "heed/image/image.h"
#include "heed/io/safetensors.h"
#include "image/fixtures.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

void expect_values(const Tensor& values, const Tensor& expected, double tolerance, const std::string& name) {
  ASSERT_EQ(values.shape(), expected.shape()) << name;
  const auto a = values.to_vector<float>(), b = expected.to_vector<float>();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  EXPECT_LE(largest, tolerance) << name;
}

/// Compares what a processor makes of each file; returns how many there are.
int compare(const fs::path& directory, ResizeArithmetic arithmetic) {
  const auto expected = SafetensorsFile::open(
      directory / (arithmetic == ResizeArithmetic::pillow ? "pil.safetensors" : "torchvision.safetensors"));
  const ImageProcessor processor = load_image_processor(directory, arithmetic);
  EXPECT_EQ(processor.arithmetic(), arithmetic);
  int files = 0;
  for (const TensorInfo& info : expected.tensors()) {
    const std::size_t suffix = info.name.rfind(".pixel_values");
    if (suffix == info.name.npos) continue;
    ++files;
    const std::string file = info.name.substr(0, suffix);
    const std::string name = directory.filename().string() + "/" + file;
    const ImageInputs inputs = processor(load_image(kFixtures / "pictures" / file));
    Tensor values = inputs.pixel_values;
    if (values.size(2) == 384) {  // of the large one, every 29th row and 31st column are kept
      values = values.as_strided({1, 3, 14, 13}, {3 * 384 * 384, 384 * 384, 29 * 384, 31}, 0);
    }
    // Levels are equal to the last bit. DINOv3 adds up floats, in its own order.
    const bool exact = processor.type() != "DINOv3ViTImageProcessor";
    expect_values(values, expected.get(info.name).to(DType::f32), exact ? 0 : 2e-6, name);
    EXPECT_EQ(inputs.spatial_shapes.defined(), expected.contains(file + ".spatial_shapes")) << name;
    if (!inputs.spatial_shapes.defined()) continue;
    EXPECT_EQ(inputs.spatial_shapes.to_vector<std::int64_t>(),
              expected.get(file + ".spatial_shapes").to_vector<std::int64_t>());
    EXPECT_EQ(inputs.pixel_attention_mask.to_vector<std::int64_t>(),
              expected.get(file + ".pixel_attention_mask").to(DType::i64).to_vector<std::int64_t>());
  }
  return files;
}

TEST(ImageProcessor, PillowsClassesAreEqual) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kFixtures / "processors")) {
    if (fs::exists(entry.path() / "pil.safetensors"))
      files += compare(entry.path(), ResizeArithmetic::pillow);
  }
  EXPECT_EQ(files, 6 * 9 + 2 * 4 + 6 * 2 + 1 + 9 * 3 + 1);
}

TEST(ImageProcessor, TorchvisionsClassesAreEqual) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kFixtures / "processors")) {
    if (fs::exists(entry.path() / "torchvision.safetensors"))
      files += compare(entry.path(), ResizeArithmetic::torchvision);
  }
  EXPECT_EQ(files, 7 * 9 + 2 * 4 + 4 * 2);
}

TEST(ImageProcessor, BatchIsItsImages) {
  const ImageProcessor processor = load_image_processor(kFixtures / "processors/clip");
  const std::vector<Tensor> images{load_image(kFixtures / "pictures/photo.jpg"),
                                   load_image(kFixtures / "pictures/wide.png")};
  const ImageInputs batch = processor(images);
  EXPECT_EQ(batch.pixel_values.str(), "f32[2, 3, 28, 28]");
  EXPECT_FALSE(batch.pixel_attention_mask.defined());
  const auto both = batch.pixel_values.to_vector<float>();
  std::vector<float> each = processor(images[0]).pixel_values.to_vector<float>();
  const auto second = processor(images[1]).pixel_values.to_vector<float>();
  each.insert(each.end(), second.begin(), second.end());
  EXPECT_EQ(both, each);
}

TEST(ImageProcessor, PadsToTheLargestOfABatch) {
  const TemporaryFolder folder;
  spill(
      folder.path() / "preprocessor_config.json",
      R"({"image_processor_type": "ViTImageProcessor", "do_resize": false, "do_pad": true, "do_rescale": false,
            "do_normalize": true, "image_mean": 1, "image_std": 2})");
  const std::vector<Tensor> images{Tensor::full({1, 2, 3}, 5, DType::u8),
                                   Tensor::full({2, 1, 3}, 7, DType::u8)};
  const Tensor values = load_image_processor(folder.path())(images).pixel_values;
  EXPECT_EQ(values.str(), "f32[2, 3, 2, 2]");
  const std::vector<float> red(values.data<float>(), values.data<float>() + 4),
      second(values.data<float>() + 12, values.data<float>() + 16);
  EXPECT_EQ(red, (std::vector<float>{2, 2, 0, 0}));
  EXPECT_EQ(second, (std::vector<float>{3, 0, 3, 0}));
}

TEST(ImageProcessor, TheClassIsFound) {
  const TemporaryFolder folder;
  const auto processor = [&](const std::string& json) {
    spill(folder.path() / "preprocessor_config.json", json);
    return load_image_processor(folder.path());
  };
  EXPECT_EQ(processor(R"({"image_processor_type": "CLIPImageProcessor"})").type(), "CLIPImageProcessor");
  EXPECT_EQ(processor(R"({"image_processor_type": "CLIPImageProcessor"})").arithmetic(),
            ResizeArithmetic::pillow);
  const ImageProcessor fast = processor(R"({"image_processor_type": "CLIPImageProcessorFast"})");
  EXPECT_EQ(fast.type(), "CLIPImageProcessor");
  EXPECT_EQ(fast.arithmetic(), ResizeArithmetic::torchvision);
  EXPECT_EQ(processor(R"({"image_processor_type": "DINOv3ViTImageProcessorFast"})").arithmetic(),
            ResizeArithmetic::torchvision);
  EXPECT_EQ(processor(R"({"feature_extractor_type": "DeiTFeatureExtractor"})").type(), "DeiTImageProcessor");
  spill(folder.path() / "config.json", R"({"model_type": "dinov2"})");
  EXPECT_EQ(processor("{}").type(), "BitImageProcessor");
  spill(folder.path() / "processor_config.json",
        R"({"image_processor": {"image_processor_type": "BlipImageProcessor"}})");
  EXPECT_EQ(processor("{}").type(), "BlipImageProcessor");
  spill(folder.path() / "processor_config.json", R"({"processor_class": "CLIPProcessor"})");
  EXPECT_EQ(processor("{}").type(), "BitImageProcessor");
}

TEST(ImageProcessor, ThePictureIsTheResizedImage) {
  Tensor image = Tensor::empty({4, 4, 3}, DType::u8);
  for (int i = 0; i < 48; ++i) image.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(5 * i);
  const ImageProcessor processor = make_image_processor(Config::parse(
      R"({"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 4}, "crop_size": {"height": 4, "width": 4}})",
      "test"));
  const Tensor pixels = processor(image).pixel_values;
  EXPECT_EQ(processor.picture(pixels).to_vector<std::uint8_t>(), image.to_vector<std::uint8_t>());
  EXPECT_EQ(processor.normalize(std::span(&image, 1)).pixel_values.to_vector<float>(),
            pixels.to_vector<float>());
  EXPECT_ERROR(processor.picture(image), "expected pixel_values f32[1, 3, height, width]");
  EXPECT_ERROR(make_image_processor(Config::parse("{}", "test")),
               "image_processor_type: expected a string, got nothing");
}

}  // namespace
}  // namespace heed
