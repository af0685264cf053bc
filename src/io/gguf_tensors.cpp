#include "io/gguf_tensors.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <optional>

#include "heed/error.h"

namespace heed::io {
namespace {

// Rows before those of the file, which no position reads.
struct RowsBefore : Buffer::Source {
  Tensor rows;
  std::size_t bytes_before = 0;
  void write(std::byte* to) const override {
    std::memset(to, 0, bytes_before);
    const std::vector<float> numbers = rows.to(DType::f32).to_vector<float>();
    std::memcpy(to + bytes_before, numbers.data(), numbers.size() * sizeof(float));
  }
};

bool reorders_rows(GgufChange change) {
  return change == GgufChange::query_pairs || change == GgufChange::key_pairs ||
         change == GgufChange::fused_by_kind;
}

std::int64_t product(const std::vector<std::int64_t>& shape, std::size_t from) {
  std::int64_t numbers = 1;
  for (std::size_t i = from; i < shape.size(); ++i) numbers *= shape[i];
  return numbers;
}

}  // namespace

GgufTensors::GgufTensors(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {
  const GgufArchitecture& architecture = gguf_architecture(*file_);
  for (const GgufTensor& tensor : file_->tensors()) {
    GgufPlace place = hugging_face_place(architecture, tensor.name);
    if (place.change != GgufChange::unread) add(tensor, std::move(place.name), place.change);
  }
}

void GgufTensors::add_entry(std::string name, Entry entry) {
  entry.info.name = name;
  if (!entries_.emplace(name, std::move(entry)).second)
    throw Error(file_->path().string() + ": " + name + ": expected one tensor that stands for it, got two");
  names_.push_back(std::move(name));
}

void GgufTensors::add(const GgufTensor& tensor, std::string name, GgufChange change) {
  const auto fail = [&](const std::string& what) {
    throw Error(fmt::format("{}: {}: {}", file_->path().string(), tensor.name, what));
  };
  // Only a matrix differs in what is transposed; a bias is one row.
  if (change == GgufChange::transposed && tensor.shape.size() < 2) change = GgufChange::none;
  Entry entry{.info = {.name = name,
                       .dtype = std::string(tensor.layout.name),
                       .shape = tensor.shape,
                       .end = tensor.bytes},
              .tensor = &tensor,
              .change = change};
  if (reorders_rows(change)) {
    const std::int64_t parts = heads(change) * (change == GgufChange::fused_by_kind ? 3 : 2);
    if (tensor.shape.front() % parts != 0 || tensor.shape.front() > INT32_MAX)
      fail(fmt::format("expected rows for {} heads, got {}", heads(change), tensor.shape.front()));
  }
  if (change == GgufChange::transposed) {
    if (tensor.shape.size() != 2) fail(fmt::format("expected a matrix, got {} axes", tensor.shape.size()));
    std::swap(entry.info.shape[0], entry.info.shape[1]);
  }
  const bool computed = change == GgufChange::plus_one || change == GgufChange::no_offset;
  if (computed && tensor.layout.numbers != 1)
    fail(fmt::format("expected plain numbers (F32, F16 or BF16), got {}", tensor.layout.name));
  if (change == GgufChange::no_offset) {
    if (tensor.shape.size() != 2) fail(fmt::format("expected a matrix, got {} axes", tensor.shape.size()));
    const auto padding = file_->integer("tokenizer.ggml.padding_token_id").value_or(-1);
    if (padding < 0 || padding > 65536)
      file_->fail("tokenizer.ggml.padding_token_id", "an id from 0 to 65536", std::to_string(padding));
    entry.info.shape[0] += padding + 1;
  }
  if (change != GgufChange::experts) return add_entry(std::move(name), std::move(entry));
  if (tensor.shape.size() != 3)
    fail(fmt::format("expected 3 axes, of experts, rows and columns, got {}", tensor.shape.size()));
  if (tensor.shape[0] > 65536) fail(fmt::format("expected at most 65536 experts, got {}", tensor.shape[0]));
  const std::size_t place = name.find('#');
  entry.info.shape.erase(entry.info.shape.begin());
  entry.info.end /= static_cast<std::uint64_t>(tensor.shape[0]);
  for (entry.expert = 0; entry.expert < tensor.shape[0]; ++entry.expert)
    add_entry(std::string(name).replace(place, 1, std::to_string(entry.expert)), entry);
}

std::int64_t GgufTensors::heads(GgufChange change) const {
  const std::string key = gguf_architecture_name(*file_) + ".attention.head_count";
  const auto first_of = [&](const std::string& name) {
    const std::vector<std::int64_t> all = file_->integers(name);
    if (!all.empty() && (all.front() < 1 || all.front() > 65536))
      file_->fail(name, "a number of heads", std::to_string(all.front()));
    return all.empty() ? std::int64_t{0} : all.front();
  };
  const std::int64_t queries = first_of(key);
  if (queries == 0) file_->fail(key, "a number of heads", "none");
  const std::int64_t keys = change == GgufChange::key_pairs ? first_of(key + "_kv") : 0;
  return keys > 0 ? keys : queries;
}

const GgufTensors::Entry& GgufTensors::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw Error(file_->path().string() + ": tensor \"" + std::string(name) + "\" not found");
  return found->second;
}

Tensor GgufTensors::get(std::string_view name) const {
  const Entry& wanted = entry(name);
  if (wanted.change != GgufChange::none || wanted.tensor->layout.numbers != 1) return make(wanted);
  const std::lock_guard lock(mutex_);
  // One over the mapped file for all who ask, so that writes to it are visible to all.
  if (!wanted.made.defined()) wanted.made = make(wanted);
  return wanted.made;
}

Tensor GgufTensors::make(const Entry& entry) const {
  const GgufTensor& tensor = *entry.tensor;
  const Shape shape{std::span<const std::int64_t>(entry.info.shape)};
  const BlockType type = tensor.layout.type;
  if (entry.change == GgufChange::none || entry.change == GgufChange::plus_one ||
      entry.change == GgufChange::no_offset) {
    if (const std::optional<DType> dtype = plain_type(type)) {
      const Shape held{std::span<const std::int64_t>(tensor.shape)};
      Tensor plain = Tensor::from_buffer(
          Buffer::wrap_file(tensor.data, tensor.bytes, tensor.file, MappedFile::forget), held, *dtype);
      if (entry.change == GgufChange::none) return plain;
      if (entry.change == GgufChange::plus_one) {
        std::vector<float> numbers = plain.to(DType::f32).to_vector<float>();
        for (float& number : numbers) number -= 1;
        return Tensor::from(numbers, shape);
      }
      auto source = std::make_shared<RowsBefore>();
      source->rows = plain;
      source->bytes_before = static_cast<std::size_t>((shape[0] - held[0]) * held[1]) * sizeof(float);
      const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * sizeof(float);
      return Tensor::from_buffer(Buffer::lazy(bytes, std::move(source)), shape, DType::f32);
    }
  }
  BlockMatrix matrix{.type = type, .data = tensor.data, .owner = tensor.file, .release = MappedFile::forget};
  // A vector is changed number by number.
  const bool vector = tensor.shape.size() == 1 && tensor.layout.numbers == 1;
  matrix.rows = vector ? tensor.shape[0] : product(tensor.shape, 0) / tensor.shape.back();
  matrix.columns = vector ? 1 : tensor.shape.back();
  if (entry.change == GgufChange::experts) {
    matrix.rows /= tensor.shape[0];
    matrix.data += static_cast<std::size_t>(entry.expert) * static_cast<std::size_t>(entry.info.end);
  }
  if (reorders_rows(entry.change))
    matrix.order = gguf_row_order(entry.change, heads(entry.change), matrix.rows);
  matrix.transposed = entry.change == GgufChange::transposed;
  return tensor_of_blocks(std::move(matrix), shape);
}

}  // namespace heed::io
