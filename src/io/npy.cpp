#include "heed/io/npy.h"

#include "heed/error.h"
#include "heed/io/file.h"

namespace heed {
namespace {

const char* descriptor_of(const std::filesystem::path& path, DType dtype) {
  switch (dtype) {
    case DType::f64: return "<f8";
    case DType::f32: return "<f4";
    case DType::f16: return "<f2";
    case DType::i64: return "<i8";
    case DType::i32: return "<i4";
    case DType::u8: return "|u1";
    case DType::boolean: return "|b1";
    case DType::bf16: break;
  }
  throw Error(path.string() + ": expected a dtype that NumPy supports, got bf16 (convert it to f32 first)");
}

// A tuple as Python writes it: "()", "(3,)", "(2, 3)".
std::string tuple_of(const Shape& shape) {
  std::string text = "(";
  for (const std::int64_t size : shape) text += std::to_string(size) + (shape.rank() == 1 ? "," : ", ");
  if (shape.rank() > 1) text.erase(text.size() - 2);
  return text + ")";
}

}  // namespace

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  constexpr std::size_t kPreamble = 10,
                        kAlignment = 64;  // magic, version and length; where the numbers start
  std::string header = std::string("{'descr': '") + descriptor_of(path, tensor.dtype()) +
                       "', 'fortran_order': False, 'shape': " + tuple_of(tensor.shape()) + ", }";
  header.append(kAlignment - 1 - (kPreamble + header.size()) % kAlignment, ' ');
  header.push_back('\n');
  std::string preamble = "\x93NUMPY";
  preamble.append(
      {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)});
  const Tensor row_major = tensor.detach().contiguous();
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
  AtomicFile file(path);
  file.write(preamble);
  file.write(header);
  file.write(std::span<const std::byte>(row_major.raw_data(), bytes));
  file.commit();
}

}  // namespace heed
