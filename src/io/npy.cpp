// The header of an NPY file, written and read, and the numbers behind it.
#include "heed/io/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/files/file.h"

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

// Returns a tuple in Python's notation: "()", "(3,)", "(2, 3)".
std::string tuple_of(const Shape& shape) {
  std::string text = "(";
  for (const std::int64_t size : shape) text += std::to_string(size) + (shape.rank() == 1 ? "," : ", ");
  if (shape.rank() > 1) text.erase(text.size() - 2);
  return text + ")";
}

constexpr std::string_view kMagic = "\x93NUMPY";

// Returns what follows `'KEY': ` in the header, which is a dictionary in Python's notation.
std::string_view entry(const std::filesystem::path& path, std::string_view header, std::string_view key) {
  const std::string quoted = std::string("'").append(key).append("': ");
  const std::size_t at = header.find(quoted);
  if (at == header.npos)
    throw Error(path.string() + ": '" + std::string(key) + "' not found in the header (not an NPY file?)");
  return header.substr(at + quoted.size());
}

DType dtype_of(const std::filesystem::path& path, std::string_view descriptor) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const std::string name = std::string("'").append(descriptor_of(path, dtype)).append("'");
    if (descriptor.starts_with(name)) return dtype;
  }
  const std::string_view got = descriptor.substr(0, std::min(descriptor.find(','), std::size_t{16}));
  throw Error(path.string() + ": expected numbers of a dtype heed has, such as '<f4', got " +
              std::string(got));
}

// Parses "(2, 3), ..." as a shape. Returns nullopt if it is malformed or too large for memory.
std::optional<Shape> shape_of(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (text.empty() || text.front() != '(') return std::nullopt;
  text.remove_prefix(1);
  std::vector<std::int64_t> sizes;
  std::int64_t elements = 1;
  while (!text.empty() && text.front() != ')') {
    std::int64_t size = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), size);
    const bool full = static_cast<int>(sizes.size()) == Shape::kMaxRank;
    if (read.ec != std::errc() || size < 0 || full) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    elements = size > kMost / elements ? kMost + 1 : elements * std::max<std::int64_t>(size, 1);
    if (elements > kMost) return std::nullopt;
    sizes.push_back(size);
    while (!text.empty() && (text.front() == ',' || text.front() == ' ')) text.remove_prefix(1);
  }
  if (text.empty()) return std::nullopt;
  return Shape(sizes);
}

// Returns the header's text and the offset of the numbers.
std::pair<std::string_view, std::size_t> header_of(const std::filesystem::path& path, std::string_view file) {
  constexpr std::size_t kVersion = 6, kLength = 8;
  const bool known =
      file.size() >= 12 && file.starts_with(kMagic) && file[kVersion] >= 1 && file[kVersion] <= 3;
  if (!known) throw Error(path.string() + ": expected an NPY file of format 1.0 to 3.0, got another file");
  const std::size_t width = file[kVersion] == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(file[kLength + i])) << (8 * i);
  const std::size_t begin = kLength + width;
  if (length > file.size() - begin)
    throw Error(path.string() + ": expected a whole header, got a part of it");
  return {file.substr(begin, length), begin + length};
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  const auto mapped = MappedFile::open(path);
  const std::string_view file(reinterpret_cast<const char*>(mapped->data()), mapped->bytes());
  const auto [header, begin] = header_of(path, file);
  const DType dtype = dtype_of(path, entry(path, header, "descr"));
  if (!entry(path, header, "fortran_order").starts_with("False"))
    throw Error(path.string() + ": expected rows one after another (C order), got Fortran order");
  const std::optional<Shape> shape = shape_of(entry(path, header, "shape"));
  if (!shape) throw Error(path.string() + ": expected a shape such as (2, 3), got another");
  const std::size_t bytes = static_cast<std::size_t>(shape->numel()) * size_of(dtype);
  if (bytes != file.size() - begin) {
    throw Error(path.string() + ": expected " + std::to_string(bytes) + " bytes of numbers for the shape " +
                shape->str() + ", got " + std::to_string(file.size() - begin));
  }
  const bool truths =
      dtype != DType::boolean || std::all_of(file.begin() + static_cast<std::ptrdiff_t>(begin), file.end(),
                                             [](char c) { return c == 0 || c == 1; });
  if (!truths) throw Error(path.string() + ": expected truth values of 0 or 1, got another byte");
  const Tensor tensor = Tensor::empty(*shape, dtype);
  if (bytes > 0) std::memcpy(tensor.raw_data(), file.data() + begin, bytes);
  return tensor;
}

std::string npy_header(std::string_view descr, std::string_view shape) {
  constexpr std::size_t kPreamble = 10,
                        kAlignment = 64;  // magic, version and length; alignment of the numbers
  std::string entries = "{'descr': '";
  entries.append(descr).append("', 'fortran_order': False, 'shape': ").append(shape).append(", }");
  entries.append(kAlignment - 1 - (kPreamble + entries.size()) % kAlignment, ' ');
  entries.push_back('\n');
  std::string header(kMagic);
  header.append(
      {'\1', '\0', static_cast<char>(entries.size() & 0xff), static_cast<char>(entries.size() >> 8)});
  return header + entries;
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const std::string header = npy_header(descriptor_of(path, tensor.dtype()), tuple_of(tensor.shape()));
  const Tensor row_major = tensor.detach().contiguous();
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
  AtomicFile file(path);
  file.write(header);
  file.write(std::span<const std::byte>(row_major.raw_data(), bytes));
  file.commit();
}

}  // namespace heed
