// Writes a model's tensors, metadata and tokenizer as a GGUF file.
#include "models/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/find_model.h"
#include "heed/ops/shape.h"
#include "io/gguf_architecture.h"
#include "models/families/llama_common.h"
#include "models/weight_builder.h"
#include "ops/quantization.h"
#include "tensor/quantized_matrix.h"
#include "text/loading/gguf_tokenizer.h"

namespace heed {
namespace {

BlockType block_type(GgufType type) {
  switch (type) {
    case GgufType::f32: return BlockType::f32;
    case GgufType::f16: return BlockType::f16;
    case GgufType::bf16: return BlockType::bf16;
    case GgufType::q4_0: return BlockType::q4_0;
    case GgufType::q4_1: return BlockType::q4_1;
    default: return BlockType::q8_0;
  }
}

// llama.cpp's number for a file most of whose tensors have that type.
std::int64_t gguf_file_type(GgufType type) {
  switch (type) {
    case GgufType::f32: return 0;
    case GgufType::f16: return 1;
    case GgufType::q4_0: return 2;
    case GgufType::q4_1: return 3;
    case GgufType::bf16: return 32;
    default: return 7;
  }
}

// A tensor of the file, and the tensors of the model that make it: one, or those of all experts.
struct GgufPart {
  std::string name;
  io::GgufChange change = io::GgufChange::none;
  std::vector<const TensorRow*> rows;
};

std::vector<GgufPart> gguf_parts(const Weights& weights, const GgufModel& model, const std::string& where) {
  const io::GgufArchitecture& names = *io::gguf_architecture(model.architecture);
  std::vector<GgufPart> parts;
  std::map<std::string, std::size_t> by_name;
  for (const TensorRow& row : weights.rows()) {
    const auto place = io::gguf_place(names, row.name);
    if (!place)
      throw Error(where + ": " + row.name + ": expected tensors that a GGUF file of " + model.architecture +
                  " has, got one more");
    const auto [found, is_new] = by_name.emplace(place->name, parts.size());
    if (is_new) parts.push_back({place->name, place->change, {}});
    GgufPart& part = parts[found->second];
    HEED_ASSERT(std::ssize(part.rows) == place->expert, "experts in their order");
    part.rows.push_back(&row);
  }
  return parts;
}

// Axes as the file has them.
Shape shape_of(const GgufPart& part, const TensorRow& row) {
  const bool swapped = part.change == io::GgufChange::transposed && row.shape.rank() == 2;
  return swapped ? Shape{row.shape[1], row.shape[0]} : row.shape;
}

// As llama.cpp's own programs choose: vectors, norms, positions and what routes to experts stay f32, rows
// that are no whole blocks f16, and what makes the logits has 8 bits or more.
BlockType type_of(const GgufPart& part, BlockType type) {
  const TensorRow& row = *part.rows.front();
  const bool wide = row.shape.rank() < 2 || part.name.ends_with("_norm.weight") ||
                    part.name.ends_with("ffn_gate_inp.weight") || part.name == "position_embd.weight";
  if (wide) return BlockType::f32;
  if (shape_of(part, row)[-1] % layout_of(type).numbers != 0) return BlockType::f16;
  const bool output = part.name == "output.weight" || (part.name == "token_embd.weight" && !row.tied.empty());
  return output && layout_of(type).numbers > 1 ? BlockType::q8_0 : type;
}

// The numbers of one tensor of the model as they lie in the file.
std::vector<float> changed(const Tensor& numbers, io::GgufChange change, const GgufModel& model) {
  const bool swapped = change == io::GgufChange::transposed && numbers.rank() == 2;
  std::vector<float> values = (swapped ? transpose(numbers, 0, 1) : numbers).to_vector<float>();
  if (change == io::GgufChange::plus_one) {
    for (float& value : values) value += 1;
  }
  const std::int64_t rows = numbers.size(0), columns = numbers.numel() / rows;
  const std::int64_t heads = change == io::GgufChange::key_pairs ? model.kv_heads : model.heads;
  const std::vector<std::int32_t> order = io::gguf_row_order(change, heads, rows);
  if (order.empty()) return values;
  std::vector<float> moved(values.size());
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy_n(values.begin() + i * columns, columns,
                moved.begin() + order[static_cast<std::size_t>(i)] * columns);
  return moved;
}

// What rounding numbers to blocks has lost.
QuantizedMap loss_of(const std::string& name, const std::vector<float>& numbers,
                     std::vector<std::byte>& blocks, BlockType type, std::int64_t columns) {
  const std::int64_t rows = std::ssize(numbers) / columns;
  const BlockMatrix matrix{.type = type, .rows = rows, .columns = columns, .data = blocks.data()};
  const Tensor back = tensor_of_blocks(matrix, {rows, columns}).clone();
  return {name, relative_loss(Tensor::from(numbers, {rows, columns}), back)};
}

std::vector<std::byte> bf16_bytes(const std::vector<float>& numbers) {
  const Tensor narrow = Tensor::from(numbers, {std::ssize(numbers)}).to(DType::bf16);
  return {narrow.raw_data(), narrow.raw_data() + narrow.numel() * 2};
}

std::vector<std::byte> blocks_of(const Weights& weights, const GgufPart& part, BlockType type,
                                 BlockType asked, const GgufModel& model, const std::string& where,
                                 QuantizeReport& report) {
  const NoGradients guard;
  std::vector<std::byte> all;
  for (const TensorRow* row : part.rows) {
    const std::vector<float> numbers = changed(weights[row->name].dequantized(), part.change, model);
    if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); }))
      throw Error(where + ": " + row->name + ": expected finite numbers, got others");
    std::vector<std::byte> blocks =
        type == BlockType::bf16 ? bf16_bytes(numbers) : block_codes(numbers, type);
    if (layout_of(type).numbers > 1) {
      report.maps.push_back(loss_of(row->name, numbers, blocks, type, shape_of(part, *row)[-1]));
    } else if (type == BlockType::f16 && asked != BlockType::f16) {
      report.kept.push_back(row->name);
    }
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  return all;
}

// Which tokens end a text: of generation, where the model says so.
std::vector<std::int64_t> ends_of_text(const ModelContents& model) {
  const Config generation =
      model.generation.empty() ? model.config : Config::parse(model.generation, "generation_config.json");
  return generation.integers("eos_token_id");
}

}  // namespace

QuantizeReport save_gguf(const ModelContents& model, const std::filesystem::path& file, GgufType type,
                         const std::filesystem::path& tokenizer) {
  const std::string where = model.config.where();
  if (model.weights.is_adapted())
    throw Error(where + ": expected a model without adapters to save, got one with (merge them first)");
  if (!model.gguf)
    throw Error(where + ": model_type: expected one of " + gguf_families() + " to write a GGUF file, got " +
                model.config.required_string("model_type"));
  const GgufModel described = model.gguf();
  GgufValues values;
  values.text("general.architecture", described.architecture);
  values.text("general.type", "model");
  values.text("general.name", tokenizer.has_stem() ? tokenizer.stem().string() : described.architecture);
  values.integer("general.file_type", gguf_file_type(type));
  values.integer("general.quantization_version", 2);
  values.append(described.values);
  const std::vector<GgufPart> parts = gguf_parts(model.weights, described, where);
  const std::int64_t tokens = model.config.required_integer("vocab_size");
  put_gguf_tokenizer(model_files(tokenizer), tokens, ends_of_text(model), values);
  QuantizeReport report;
  std::vector<GgufOutputTensor> tensors;
  for (const auto& [name, factors] : described.factors)
    tensors.push_back({name, BlockType::f32, {std::ssize(factors)}, [&numbers = factors] {
                         return block_codes(numbers, BlockType::f32);
                       }});
  const BlockType asked = block_type(type);
  for (const GgufPart& part : parts) {
    const BlockType stored = type_of(part, asked);
    const Shape shape = shape_of(part, *part.rows.front());
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    if (part.change == io::GgufChange::experts) sizes.insert(sizes.begin(), std::ssize(part.rows));
    tensors.push_back({part.name, stored, std::move(sizes), [&, stored] {
                         return blocks_of(model.weights, part, stored, asked, described, where, report);
                       }});
  }
  write_gguf(file, values, tensors);
  return report;
}

}  // namespace heed
