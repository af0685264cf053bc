#include "heed/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/fork_safe_mutex.h"
#include "files/input_file.h"
#include "heed/core/utf8.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "io/safetensors_header.h"
#include "tensor/impl.h"

namespace heed {

static_assert(std::endian::native == std::endian::little,
              "the format is little endian, and so are its readers here");

struct SafetensorsFile::Contents {
  std::filesystem::path path;
  std::shared_ptr<MappedFile> file;
  std::byte* data = nullptr;  // first byte after the header
  io::SafetensorsHeader header;
  std::unordered_map<std::string_view, std::size_t> index;  // the names are owned by header.tensors
  // One buffer per tensor, however often it is requested, so that writes to it are visible to all its
  // tensors.
  mutable ForkSafeMutex mutex;
  mutable std::unordered_map<const TensorInfo*, std::shared_ptr<Buffer>> buffers;

  std::shared_ptr<Buffer> buffer(const TensorInfo& tensor) const {
    const std::lock_guard lock(mutex);
    std::shared_ptr<Buffer>& shared = buffers[&tensor];
    if (shared == nullptr) {
      const auto bytes = static_cast<std::size_t>(tensor.end - tensor.begin);
      shared = Buffer::wrap_file(data + tensor.begin, bytes, file, MappedFile::forget);
    }
    return shared;
  }
};

namespace {

// Numbers that are misaligned in the file: copied when they are needed.
struct Unaligned : Buffer::Source {
  std::shared_ptr<MappedFile> file;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  void write(std::byte* to) const override {
    if (bytes > 0) std::memcpy(to, data, bytes);
  }
};

// Returns the header's bytes, after checking that the file has that many.
std::string_view header_text(const std::filesystem::path& path, const MappedFile& file) {
  constexpr std::size_t kLengthBytes = 8;
  if (file.bytes() < kLengthBytes) {
    throw Error(path.string() + ": expected a safetensors file, got " + std::to_string(file.bytes()) +
                " bytes (shorter than any header)");
  }
  std::uint64_t length;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > file_limits::kTensorHeader) {
    throw Error(path.string() + ": expected a header of at most " +
                std::to_string(file_limits::kTensorHeader) + " bytes, got " + std::to_string(length) +
                " (not a safetensors file?)");
  }
  if (length > file.bytes() - kLengthBytes) {
    throw Error(path.string() + ": expected a header of " + std::to_string(length) +
                " bytes, got a file of " + std::to_string(file.bytes()) +
                " (the file is cut off; download or copy it again)");
  }
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, static_cast<std::size_t>(length)};
}

void check_booleans(const std::string& where, const std::byte* data, std::uint64_t bytes) {
  const auto* bad = std::find_if(data, data + bytes, [](std::byte b) { return b > std::byte{1}; });
  if (bad != data + bytes) {
    throw Error(where + ": expected BOOL bytes of 0 or 1, got " + std::to_string(std::to_integer<int>(*bad)));
  }
}

std::string header_json(const std::vector<NamedTensor>& tensors, const std::vector<std::size_t>& order,
                        const std::map<std::string, std::string>& metadata) {
  JsonWriter json;
  json.begin_object();
  if (!metadata.empty()) json.field(io::kMetadataName, metadata);
  std::uint64_t begin = 0;
  for (const std::size_t i : order) {
    const Tensor& tensor = tensors[i].tensor;
    const std::uint64_t end = begin + static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
    json.key(tensors[i].name).begin_object().field("dtype", io::format_name(tensor.dtype()));
    json.field("shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end()));
    json.field("data_offsets", std::vector<std::uint64_t>{begin, end}).end_object();
    begin = end;
  }
  std::string text = json.end_object().text();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

void check_names(const std::string& where, const std::vector<NamedTensor>& tensors,
                 const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  for (const NamedTensor& named : tensors) {
    HEED_ASSERT(named.tensor.defined(), "a tensor to save that is none");
    if (named.name == io::kMetadataName || first_invalid_utf8(named.name)) {
      throw Error(where + ": expected tensor names in UTF-8 other than __metadata__, got \"" + named.name +
                  "\"");
    }
    if (!names.insert(named.name).second) {
      throw Error(where + ": expected every tensor name once, got \"" + named.name + "\" twice");
    }
  }
  for (const auto& entry : metadata) {
    if (first_invalid_utf8(entry.first) || first_invalid_utf8(entry.second)) {
      throw Error(where + ": expected metadata in UTF-8, got other bytes under \"" + entry.first + "\"");
    }
  }
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path, const std::filesystem::path& shown) {
  auto contents = std::make_shared<Contents>();
  contents->path = shown.empty() ? path : shown;
  contents->file = MappedFile::open(path, contents->path);
  const std::string_view text = header_text(contents->path, *contents->file);
  const std::size_t data_start = 8 + text.size();
  contents->data = contents->file->data() + data_start;
  contents->header =
      io::read_safetensors_header(contents->path.string(), text, contents->file->bytes() - data_start);
  const std::vector<TensorInfo>& tensors = contents->header.tensors;
  contents->index.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) contents->index.emplace(tensors[i].name, i);
  return SafetensorsFile(std::move(contents));
}

const std::filesystem::path& SafetensorsFile::path() const { return contents_->path; }
const std::vector<TensorInfo>& SafetensorsFile::tensors() const { return contents_->header.tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return contents_->header.metadata;
}
bool SafetensorsFile::contains(std::string_view name) const { return contents_->index.count(name) > 0; }

const TensorInfo& SafetensorsFile::info(std::string_view name) const {
  const auto found = contents_->index.find(name);
  if (found == contents_->index.end()) {
    throw Error(path().string() + ": tensor \"" + std::string(name) + "\" not found");
  }
  return tensors()[found->second];
}

Tensor SafetensorsFile::get(std::string_view name) const {
  const TensorInfo& tensor = info(name);
  const std::string where = path().string() + ": \"" + tensor.name + "\"";
  const std::optional<DType> dtype = io::dtype_of_format(tensor.dtype);
  if (!dtype) {
    throw Error(where + ": expected a dtype of F64 F32 BF16 F16 I64 I32 U8 BOOL, got " + tensor.dtype +
                " (convert it first)");
  }
  if (tensor.shape.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
    throw Error(where + ": expected at most " + std::to_string(Shape::kMaxRank) + " axes, got " +
                std::to_string(tensor.shape.size()));
  }
  const Shape shape{std::span<const std::int64_t>(tensor.shape)};
  std::byte* data = contents_->data + tensor.begin;
  const std::size_t bytes = static_cast<std::size_t>(tensor.end - tensor.begin);
  if (*dtype == DType::boolean) check_booleans(where, data, bytes);
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(*dtype) == 0) {
    return Tensor::from_buffer(contents_->buffer(tensor), shape, *dtype);
  }
  auto source = std::make_shared<Unaligned>();
  source->file = contents_->file;
  source->data = data;
  source->bytes = bytes;
  return Tensor::from_buffer(Buffer::lazy(bytes, std::move(source)), shape, *dtype);
}

Tensor SafetensorsFile::bytes_of(std::string_view name) const {
  const TensorInfo& tensor = info(name);
  return Tensor::from_buffer(contents_->buffer(tensor),
                             {static_cast<std::int64_t>(tensor.end - tensor.begin)}, DType::u8);
}

void io::write_safetensors(const std::string& where, const std::vector<NamedTensor>& tensors,
                           const std::map<std::string, std::string>& metadata,
                           const std::function<void(std::span<const std::byte>)>& write) {
  check_names(where, tensors, metadata);
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(tensors[a].tensor.dtype()) > size_of(tensors[b].tensor.dtype());
  });
  const std::string header = header_json(tensors, order, metadata);
  const std::uint64_t length = header.size();
  write(std::as_bytes(std::span(&length, 1)));
  write(std::as_bytes(std::span(header)));
  for (const std::size_t i : order) {
    const Tensor tensor = tensors[i].tensor.detach().contiguous();
    const std::size_t size = size_of(tensor.dtype());
    const auto numbers =
        TensorImpl::of(tensor).buffer->read();  // lazy tensors are written one by one and stay lazy
    write({numbers->data() + static_cast<std::size_t>(tensor.offset()) * size,
           static_cast<std::size_t>(tensor.numel()) * size});
  }
}

void save_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::optional<AtomicFile> file;
  io::write_safetensors(path.string(), tensors, metadata, [&](std::span<const std::byte> part) {
    if (!file) file.emplace(path);
    file->write(part);
  });
  file->commit();
}

}  // namespace heed
