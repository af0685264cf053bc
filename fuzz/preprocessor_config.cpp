// preprocessor_config.json of every class of image processors, and what it makes of two small images.
#include "heed/image/processor.h"
#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  static const heed::Tensor wide = heed::Tensor::full({3, 5, 3}, 200, heed::DType::u8);
  static const heed::Tensor high = heed::Tensor::full({7, 2, 3}, 100, heed::DType::u8);
  folder.put("preprocessor_config.json", heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [&] {
    const heed::ImageProcessor processor = heed::load_image_processor(folder.path());
    for (const heed::Tensor& image : {wide, high}) {
      try {
        processor(image);
      } catch (const heed::Error&) {  // about sizes, which follow from the image too
      }
    }
  });
  return 0;
}
