#include "io/quantized_tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/json_field.h"
#include "core/strings.h"
#include "heed/error.h"
#include "tensor/impl.h"

namespace heed::io {
namespace {

using kernels::GroupCode;

// What kernels::GroupRows points to.
struct Groups {
  std::vector<std::uint8_t> codes, zeros;
  std::vector<float> scales;
};

// A matrix of codes, which are taken out of their tensors when they are needed.
class GroupMatrix : public QuantizedMatrix {
 public:
  kernels::GroupRows form;               // without the addresses
  std::vector<std::int32_t> order = {};  // of the columns
  std::function<Groups()> read;
  std::vector<Tensor> parts = {};  // the bytes that it reads

  std::int64_t rows() const override { return form.n; }
  std::int64_t columns() const override { return form.k; }
  std::int64_t bytes() const override { return form.bytes(); }
  bool has_integers() const override { return form.code == kernels::GroupCode::integer; }
  std::vector<std::int32_t> column_order() const override { return order; }
  std::shared_ptr<const kernels::PackedMatrix> pack() const override {
    const Groups groups = read();
    return kernels::pack(with(groups));
  }
  void release_pages() const override {
    for (const Tensor& part : parts) TensorImpl::of(part).buffer->release_pages();
  }
  void dequantize(float* y) const override {
    const Groups groups = read();
    if (order.empty()) return kernels::dequantize(with(groups), y);
    std::vector<float> sorted(static_cast<std::size_t>(form.n * form.k));
    kernels::dequantize(with(groups), sorted.data());
    for (std::int64_t i = 0; i < form.n; ++i) {
      for (std::size_t l = 0; l < order.size(); ++l)
        y[i * form.k + order[l]] = sorted[static_cast<std::size_t>(i * form.k) + l];
    }
  }

 private:
  kernels::GroupRows with(const Groups& groups) const {
    kernels::GroupRows w = form;
    w.codes = groups.codes.data();
    w.scales = groups.scales.data();
    w.zeros = groups.zeros.empty() ? nullptr : groups.zeros.data();
    return w;
  }
};

// Codes of `bits` bits in 32-bit words, the first in the lowest; they may lie across two words.
class PackedCodes {
 public:
  PackedCodes(std::vector<std::int32_t> words, int bits) : words_(std::move(words)), bits_(bits) {}
  // Code i of those whose words are `stride` apart, from word `first` on.
  std::uint8_t at(std::int64_t first, std::int64_t stride, std::int64_t i) const {
    const std::int64_t bit = i * bits_, word = first + bit / 32 * stride;
    const int shift = static_cast<int>(bit % 32);
    std::uint64_t both = get(word);
    if (shift + bits_ > 32) both |= static_cast<std::uint64_t>(get(word + stride)) << 32U;
    return static_cast<std::uint8_t>(both >> shift & ((1U << bits_) - 1));
  }

 private:
  std::uint32_t get(std::int64_t i) const {
    return static_cast<std::uint32_t>(words_[static_cast<std::size_t>(i)]);
  }
  std::vector<std::int32_t> words_;
  int bits_;
};

// The tensors of files, checked before they are read.
class Parts {
 public:
  explicit Parts(std::shared_ptr<const TensorFiles> files) : files_(std::move(files)) {}
  const TensorFiles& files() const { return *files_; }
  [[noreturn]] void fail(const std::string& name, const std::string& expected) const {
    const TensorInfo& info = files().info(name);
    throw Error(files().path_of(name).string() + ": " + name + ": expected " + expected + ", got " +
                info.dtype + " [" + joined_numbers(info.shape) + "]");
  }
  const TensorInfo& info(const std::string& name) const { return files().info(name); }
  std::int64_t size(const std::string& name, std::size_t axis) const { return info(name).shape[axis]; }
  void check_matrix(const std::string& name, std::string_view dtype) const {
    if (info(name).shape.size() != 2 || info(name).dtype != dtype)
      fail(name, "a matrix of " + std::string(dtype));
    for (const std::int64_t size : info(name).shape) {
      if (size < 1 || size > std::int64_t{1} << 30) fail(name, "sizes from 1 to 2^30");
    }
  }
  void check_shape(const std::string& name, const std::vector<std::int64_t>& shape) const {
    if (info(name).shape != shape) fail(name, "the shape [" + joined_numbers(shape) + "]");
  }
  DType scale_type(const std::string& name) const {
    const std::string& dtype = info(name).dtype;
    if (dtype != "F16" && dtype != "BF16" && dtype != "F32") fail(name, "scales of F16, BF16 or F32");
    return dtype == "F16" ? DType::f16 : dtype == "BF16" ? DType::bf16 : DType::f32;
  }
  std::vector<std::int32_t> words(const std::string& name) const {
    return files().get(name).to_vector<std::int32_t>();
  }
  std::vector<float> floats(const std::string& name) const {
    return files().get(name).to(DType::f32).to_vector<float>();
  }
  std::vector<std::uint8_t> bytes(const std::string& name) const {
    return files().bytes_of(name).to_vector<std::uint8_t>();
  }

  void check_numbers(const std::string& name, const std::vector<std::uint8_t>& codes) const {
    const auto is_nan = [](std::uint8_t code) { return (code & 0x7fU) == 0x7fU; };
    if (std::any_of(codes.begin(), codes.end(), is_nan)) fail(name, "numbers, none of them NaN");
  }

  void require(const std::vector<std::string>& names, const std::string& beside) const {
    for (const std::string& name : names) {
      if (!files().contains(name))
        throw Error(files().path_of(beside).string() + ": tensor \"" + name +
                    "\" not found, which belongs to " + beside);
    }
  }

 private:
  std::shared_ptr<const TensorFiles> files_;
};

Groups empty_groups(const kernels::GroupRows& form, bool zeros) {
  Groups g;
  g.codes.resize(static_cast<std::size_t>(form.n * form.k));
  g.scales.resize(static_cast<std::size_t>(form.n * form.k / form.group));
  if (zeros) g.zeros.resize(g.scales.size());
  return g;
}
// codes [n, k] = code(i, l)
template <class Code>
void fill_codes(const kernels::GroupRows& form, Groups& g, const Code& code) {
  for (std::int64_t i = 0; i < form.n; ++i) {
    for (std::int64_t l = 0; l < form.k; ++l) g.codes[static_cast<std::size_t>(i * form.k + l)] = code(i, l);
  }
}
// put(i, l, at) for the group `at` of row i that begins with column l
template <class Put>
void fill_groups(const kernels::GroupRows& form, const Put& put) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < form.n; ++i) {
    for (std::int64_t l = 0; l < form.k; l += form.group) put(i, l, at++);
  }
}

class QuantizedReader : private Parts {
 public:
  QuantizedReader(const TensorFiles& files, const Config& quantization)
      : Parts(std::make_shared<const TensorFiles>(files)), q_(quantization) {}

  std::vector<QuantizedTensor> read() {
    const std::string method = q_.required_string("quant_method");
    if (method == "gptq") {
      read_each(".qweight", &QuantizedReader::gptq);
    } else if (method == "awq") {
      read_each(".qweight", &QuantizedReader::awq);
    } else if (method == "compressed-tensors") {
      read_compressed();
    } else if (method == "fp8") {
      read_each(".weight_scale_inv", &QuantizedReader::scaled_weight);
      read_each(".weight_scale", &QuantizedReader::scaled_weight);
    } else if (method == "bitsandbytes") {
      read_each(".weight.absmax", &QuantizedReader::four_bits);
      read_each(".SCB", &QuantizedReader::eight_bits);
    } else {
      q_.fail("quant_method", "gptq, awq, compressed-tensors, fp8 or bitsandbytes");
    }
    return std::move(found_);
  }

 private:
  // Calls one of the functions below with the names that have the ending, without it.
  void read_each(std::string_view ending, void (QuantizedReader::*add)(const std::string&)) {
    for (const std::string& name : files().names()) {
      if (name.ends_with(ending)) (this->*add)(name.substr(0, name.size() - ending.size()));
    }
  }

  void read_compressed() {
    static const std::set<std::string> formats = {"pack-quantized",  "int-quantized",   "float-quantized",
                                                  "naive-quantized", "mixed-precision", "dense"};
    if (!formats.contains(q_.string("format", "dense")))
      q_.fail("format", "pack-quantized, int-quantized, float-quantized or naive-quantized");
    for (const char* key : {"sparsity_config", "transform_config"}) {
      if (const auto other = q_.optional_sub(key);
          other && !other->names().empty() && other->string("format", "dense") != "dense")
        q_.fail(key, "none");
    }
    read_each(".weight_packed", &QuantizedReader::packed);
    read_each(".weight_scale", &QuantizedReader::scaled_weight);
  }

  // Groups as kernels take them, from groups of `group` steps of a row of k.
  std::int64_t even_group(const std::string& name, std::int64_t group, std::int64_t k) const {
    const std::int64_t even = std::gcd(group, k);
    if (even % kernels::kLeastGroup != 0)
      fail(name, "groups and rows of a multiple of " + std::to_string(kernels::kLeastGroup) + " numbers");
    return even;
  }

  void add(const std::string& base, std::vector<std::string> parts, const char* format,
           std::shared_ptr<GroupMatrix> matrix) {
    std::erase_if(parts, [&](const std::string& part) { return !files().contains(part); });
    for (const std::string& part : parts) matrix->parts.push_back(files().bytes_of(part));
    found_.push_back({base + ".weight", std::move(parts), format, std::move(matrix)});
  }

  // The groups of `scales` [groups, n], which k rows of codes divide into.
  std::int64_t groups_of_rows(const std::string& scales, std::int64_t k, std::int64_t n) const {
    check_matrix(scales, info(scales).dtype);
    const std::int64_t groups = size(scales, 0);
    if (k % groups != 0) fail(scales, "a number of groups that divides " + std::to_string(k) + " rows");
    check_shape(scales, {groups, n});
    return groups;
  }

  // qweight [k b / 32, n] with codes along k, qzeros [groups, n b / 32] along n, scales [groups, n], g_idx
  // [k].
  void gptq(const std::string& base) {
    const std::string qweight = base + ".qweight", qzeros = base + ".qzeros", scales = base + ".scales",
                      g_idx = base + ".g_idx";
    const int bits = static_cast<int>(q_.required_integer("bits"));
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8) q_.fail("bits", "2, 3, 4 or 8");
    if (!q_.is_off("dynamic")) q_.fail("dynamic", "none, as one setting for all weights is read");
    const std::string version = q_.string("checkpoint_format", "gptq");
    if (version != "gptq" && version != "gptq_v2") q_.fail("checkpoint_format", "gptq or gptq_v2");
    check_matrix(qweight, "I32");
    const std::int64_t n = size(qweight, 1), k = size(qweight, 0) * 32 / bits;
    require({qzeros, scales}, qweight);
    const std::int64_t groups = groups_of_rows(scales, k, n), group = k / groups;
    check_matrix(qzeros, "I32");
    check_shape(qzeros, {groups, (n * bits + 31) / 32});
    auto matrix = std::make_shared<GroupMatrix>();
    matrix->form = {.bits = bits, .n = n, .k = k, .group = even_group(qweight, group, k)};
    matrix->form.scale_type = scale_type(scales);
    if (files().contains(g_idx)) matrix->order = order_of_groups(g_idx, k, groups);
    matrix->read = [=, parts = Parts(*this), form = matrix->form, order = matrix->order,
                    first = version == "gptq"] {
      const PackedCodes codes(parts.words(qweight), bits), zeros(parts.words(qzeros), bits);
      const std::vector<float> stored = parts.floats(scales);
      Groups g = empty_groups(form, true);
      const std::int64_t zero_words = (n * bits + 31) / 32;
      fill_codes(form, g, [&](std::int64_t i, std::int64_t l) {
        const std::int64_t own = order.empty() ? l : order[static_cast<std::size_t>(l)];
        return codes.at(i, n, own);
      });
      fill_groups(form, [&](std::int64_t i, std::int64_t l, std::size_t at) {
        g.scales[at] = stored[static_cast<std::size_t>(l / group * n + i)];
        g.zeros[at] = static_cast<std::uint8_t>(zeros.at(l / group * zero_words, 1, i) + (first ? 1 : 0));
      });
      return g;
    };
    add(base, {qweight, qzeros, scales, g_idx}, "GPTQ", std::move(matrix));
  }

  // The columns sorted by their groups; empty if they are.
  std::vector<std::int32_t> order_of_groups(const std::string& g_idx, std::int64_t k,
                                            std::int64_t groups) const {
    if (info(g_idx).dtype != "I32") fail(g_idx, "I32");
    check_shape(g_idx, {k});
    const std::vector<std::int32_t> of = words(g_idx);
    std::vector<std::int64_t> members(static_cast<std::size_t>(groups));
    for (const std::int32_t g : of) {
      if (g < 0 || g >= groups) fail(g_idx, "groups below " + std::to_string(groups));
      ++members[static_cast<std::size_t>(g)];
    }
    if (std::any_of(members.begin(), members.end(), [&](std::int64_t m) { return m != k / groups; }))
      fail(g_idx, std::to_string(k / groups) + " columns in each group");
    if (std::is_sorted(of.begin(), of.end())) return {};
    std::vector<std::int32_t> order(of.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return of[static_cast<std::size_t>(a)] < of[static_cast<std::size_t>(b)];
    });
    return order;
  }

  // qweight [k, n / 8] and qzeros [groups, n / 8] with eight codes of a word in another order, scales
  // [groups, n].
  void awq(const std::string& base) {
    const std::string qweight = base + ".qweight", qzeros = base + ".qzeros", scales = base + ".scales";
    if (q_.integer("bits", 4) != 4) q_.fail("bits", "4");
    if (q_.string("version", "gemm") != "gemm" && q_.string("version", "gemm") != "GEMM")
      q_.fail("version", "gemm");
    check_matrix(qweight, "I32");
    const std::int64_t k = size(qweight, 0), n = size(qweight, 1) * 8;
    require({qzeros, scales}, qweight);
    const std::int64_t groups = groups_of_rows(scales, k, n), group = k / groups;
    check_matrix(qzeros, "I32");
    check_shape(qzeros, {groups, n / 8});
    auto matrix = std::make_shared<GroupMatrix>();
    matrix->form = {.n = n, .k = k, .group = even_group(qweight, group, k), .scale_type = scale_type(scales)};
    matrix->read = [=, parts = Parts(*this), form = matrix->form] {
      const PackedCodes codes(parts.words(qweight), 4), zeros(parts.words(qzeros), 4);
      const std::vector<float> stored = parts.floats(scales);
      Groups g = empty_groups(form, true);
      constexpr std::int64_t kPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};  // of column 8 c + i in word c
      const auto code = [&](const PackedCodes& in, std::int64_t row, std::int64_t i) {
        return in.at(row * n / 8 + i / 8, 1, kPlace[i % 8]);
      };
      fill_codes(form, g, [&](std::int64_t i, std::int64_t l) { return code(codes, l, i); });
      fill_groups(form, [&](std::int64_t i, std::int64_t l, std::size_t at) {
        g.scales[at] = stored[static_cast<std::size_t>(l / group * n + i)];
        g.zeros[at] = code(zeros, l / group, i);
      });
      return g;
    };
    add(base, {qweight, qzeros, scales}, "AWQ", std::move(matrix));
  }

  // weight_packed [n, k b / 32] along k, each code 2^(b-1) above its number; weight_scale [n, groups] or [n,
  // 1]; weight_zero_point [n b / 32, groups] along n in the same way; weight_shape; weight_g_idx [k].
  void packed(const std::string& base) {
    const std::string packed = base + ".weight_packed", scale = base + ".weight_scale",
                      shape = base + ".weight_shape", zero = base + ".weight_zero_point",
                      g_idx = base + ".weight_g_idx";
    check_matrix(packed, "I32");
    require({scale, shape}, packed);
    if (info(shape).dtype != "I64" || info(shape).shape != std::vector<std::int64_t>{2})
      fail(shape, "two numbers of I64");
    const auto sizes = files().get(shape).to_vector<std::int64_t>();
    const std::int64_t n = sizes[0], k = sizes[1], columns = size(packed, 1);
    if (n != size(packed, 0) || k < 1 || k > columns * 16) fail(packed, "the shape that weight_shape says");
    const int bits = static_cast<int>(columns * 32 / k);
    if (bits < 2 || bits > 8 || columns != (k * bits + 31) / 32)
      fail(packed, "codes of 2 to 8 bits for " + std::to_string(k) + " columns");
    check_matrix(scale, info(scale).dtype);
    const std::int64_t groups = size(scale, 1), group = k / groups;
    check_shape(scale, {n, groups});
    if (groups * group != k) fail(scale, "a number of groups that divides " + std::to_string(k) + " columns");
    const bool has_zero = files().contains(zero);
    if (has_zero) {
      check_matrix(zero, "I32");
      check_shape(zero, {(n * bits + 31) / 32, groups});
    }
    auto matrix = std::make_shared<GroupMatrix>();
    matrix->form = {.bits = bits, .n = n, .k = k, .group = even_group(packed, group, k)};
    matrix->form.scale_type = scale_type(scale);
    if (!has_zero) matrix->form.center = static_cast<float>(1 << (bits - 1));
    if (files().contains(g_idx)) matrix->order = order_of_groups(g_idx, k, groups);
    matrix->read = [=, parts = Parts(*this), form = matrix->form, order = matrix->order] {
      const PackedCodes codes(parts.words(packed), bits);
      const PackedCodes zeros(has_zero ? parts.words(zero) : std::vector<std::int32_t>(), bits);
      const std::vector<float> stored = parts.floats(scale);
      Groups g = empty_groups(form, has_zero);
      fill_codes(form, g, [&](std::int64_t i, std::int64_t l) {
        const std::int64_t own = order.empty() ? l : order[static_cast<std::size_t>(l)];
        return codes.at(i * columns, 1, own);
      });
      fill_groups(form, [&](std::int64_t i, std::int64_t l, std::size_t at) {
        g.scales[at] = stored[static_cast<std::size_t>(i * groups + l / group)];
        if (has_zero) g.zeros[at] = zeros.at(l / group, groups, i);
      });
      return g;
    };
    add(base, {packed, scale, shape, zero, g_idx}, "compressed-tensors", std::move(matrix));
  }

  // weight [n, k] of I8 or F8_E4M3 with weight_scale or weight_scale_inv: one number, [n, 1], [n, groups], or
  // one for each block of rows and columns.
  void scaled_weight(const std::string& base) {
    const std::string weight = base + ".weight", zero = base + ".weight_zero_point";
    const std::string scale =
        base + (files().contains(base + ".weight_scale") ? ".weight_scale" : ".weight_scale_inv");
    if (!files().contains(weight)) return;  // packed
    const bool integers = info(weight).dtype == "I8";
    check_matrix(weight, integers ? "I8" : "F8_E4M3");
    const std::int64_t n = size(weight, 0), k = size(weight, 1);
    const std::vector<std::int64_t>& shape = info(scale).shape;
    const std::int64_t count =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    const std::int64_t across = shape.size() == 2 ? shape[1] : 1, down = shape.empty() ? 1 : shape[0];
    if (shape.size() > 2 || count < 1 || across > k || (down != 1 && down > n))
      fail(scale, "one scale, or one for each row, group or block of " + weight);
    const std::int64_t rows = block_size(n, down, 0), group = block_size(k, across, 1);
    if ((n + rows - 1) / rows != down || (k + group - 1) / group != across)
      fail(scale, "scales for blocks of one size");
    const bool has_zero = integers && files().contains(zero);
    if (has_zero && (info(zero).dtype != "I8" || info(zero).shape != shape))
      fail(zero, "I8 of the scales' shape");
    auto matrix = std::make_shared<GroupMatrix>();
    matrix->form = {.code = integers ? GroupCode::integer : GroupCode::e4m3, .bits = 8, .n = n, .k = k};
    matrix->form.group = even_group(weight, group, k);
    matrix->form.scale_type = scale_type(scale);
    if (integers && !has_zero) matrix->form.center = 128;
    matrix->read = [=, parts = Parts(*this), form = matrix->form] {
      const std::vector<float> stored = parts.floats(scale);
      const std::vector<std::uint8_t> zeros = has_zero ? parts.bytes(zero) : std::vector<std::uint8_t>();
      Groups g = empty_groups(form, has_zero);
      g.codes = parts.bytes(weight);
      if (integers) {
        for (std::uint8_t& code : g.codes) code ^= 0x80U;
      } else {
        parts.check_numbers(weight, g.codes);
      }
      fill_groups(form, [&](std::int64_t i, std::int64_t l, std::size_t at) {
        const auto from = static_cast<std::size_t>(i / rows * across + l / group);
        g.scales[at] = stored[from];
        if (has_zero) g.zeros[at] = zeros[from] ^ 0x80U;
      });
      return g;
    };
    const char* format = integers ? "INT8" : "FP8";
    add(base,
        {weight, scale, zero, base + ".input_scale", base + ".activation_scale", base + ".weight_shape"},
        format, std::move(matrix));
  }

  // How many rows (axis 0) or columns (1) have one scale, of `count`.
  std::int64_t block_size(std::int64_t size, std::int64_t count, std::size_t axis) const {
    const std::vector<std::int64_t> given = q_.integers("weight_block_size");
    const bool blocks =
        given.size() == 2 && given[axis] > 0 && (size + given[axis] - 1) / given[axis] == count;
    return blocks ? given[axis] : (size + count - 1) / count;
  }

  // weight u8 [n k / 2, 1], the upper four bits first; weight.absmax, one for each 64 numbers, of f32 or as
  // codes of nested_quant_map with nested_absmax; weight.quant_state.bitsandbytes__nf4: JSON.
  void four_bits(const std::string& base) {
    const std::string weight = base + ".weight", absmax = weight + ".absmax", map = weight + ".quant_map",
                      nested = weight + ".nested_absmax", nested_map = weight + ".nested_quant_map",
                      state = weight + ".quant_state.bitsandbytes__nf4";
    if (!files().contains(state)) {
      throw Error(files().path_of(absmax).string() + ": " + weight +
                  ": expected 4 bits of the type nf4 (heed reads no other type of bitsandbytes)");
    }
    const std::vector<std::uint8_t> text = bytes(state);
    const std::string where = files().path_of(state).string() + ": " + state;
    const Json json = parse_json(std::string(text.begin(), text.end()), where);
    const JsonField field(json, where);
    const JsonField shape = field.at("shape");
    if (shape.array_size() != 2) shape.fail("two sizes");
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const std::int64_t n = shape.at(std::size_t{0}).integer(1, kMost), k = shape.at(1).integer(1, kMost),
                       block = field.integer("blocksize", 1, kMost, 64);
    require({weight, map}, absmax);
    const bool is_nested = files().contains(nested);
    if (is_nested) require({nested_map}, absmax);
    const std::int64_t nested_block = field.integer("nested_blocksize", 1, kMost, 256);
    const double offset = is_nested ? field.at("nested_offset").number() : 0;
    const std::int64_t count = n * k / block;
    if (info(weight).dtype != "U8") fail(weight, "U8");
    check_shape(weight, {n * k / 2, 1});
    if (k % block != 0) fail(weight, "rows of whole blocks of " + std::to_string(block) + " numbers");
    if (info(absmax).dtype != (is_nested ? "U8" : "F32")) fail(absmax, is_nested ? "U8" : "F32");
    check_shape(absmax, {count});
    if (is_nested) {
      check_shape(nested, {(count + nested_block - 1) / nested_block});
      check_shape(nested_map, {256});
    }
    auto matrix = std::make_shared<GroupMatrix>();
    matrix->form = {.code = GroupCode::nf4, .n = n, .k = k, .group = even_group(weight, block, k)};
    matrix->form.scale_type = DType::f32;
    matrix->read = [=, parts = Parts(*this), form = matrix->form] {
      const std::vector<std::uint8_t> stored = parts.bytes(weight);
      Groups g = empty_groups(form, false);
      fill_codes(form, g, [&](std::int64_t i, std::int64_t l) {
        const std::uint8_t both = stored[static_cast<std::size_t>((i * k + l) / 2)];
        return static_cast<std::uint8_t>(l % 2 == 0 ? both >> 4U : both & 15U);
      });
      std::vector<float> scales;
      if (is_nested) {
        const std::vector<float> values = parts.floats(nested_map), sizes = parts.floats(nested);
        const std::vector<std::uint8_t> codes = parts.bytes(absmax);
        for (std::size_t i = 0; i < codes.size(); ++i)
          scales.push_back(values[codes[i]] * sizes[i / static_cast<std::size_t>(nested_block)] +
                           static_cast<float>(offset));
      } else {
        scales = parts.floats(absmax);
      }
      fill_groups(form, [&](std::int64_t i, std::int64_t l, std::size_t at) {
        g.scales[at] = scales[static_cast<std::size_t>((i * k + l) / block)];
      });
      return g;
    };
    add(base, {weight, absmax, map, nested, nested_map, state}, "NF4", std::move(matrix));
  }

  // weight I8 [n, k] and SCB f32 [n], 127 times the scale of a row.
  void eight_bits(const std::string& base) {
    const std::string weight = base + ".weight", scb = base + ".SCB";
    require({weight}, scb);
    check_matrix(weight, "I8");
    const std::int64_t n = size(weight, 0), k = size(weight, 1);
    if (info(scb).dtype != "F32") fail(scb, "F32");
    check_shape(scb, {n});
    auto matrix = std::make_shared<GroupMatrix>();
    matrix->form = {.bits = 8, .n = n, .k = k, .group = even_group(weight, k, k), .scale_type = DType::f32};
    matrix->form.center = 128;
    matrix->read = [=, parts = Parts(*this), form = matrix->form] {
      Groups g = empty_groups(form, false);
      g.codes = parts.bytes(weight);
      for (std::uint8_t& code : g.codes) code ^= 0x80U;
      const std::vector<float> stored = parts.floats(scb);
      fill_groups(form, [&](std::int64_t i, std::int64_t, std::size_t at) {
        g.scales[at] = stored[static_cast<std::size_t>(i)] / 127.0F;
      });
      return g;
    };
    add(base, {weight, scb, base + ".weight_format"}, "LLM.int8", std::move(matrix));
  }

  Config q_;
  std::vector<QuantizedTensor> found_;
};

}  // namespace

std::vector<QuantizedTensor> quantized_tensors(const TensorFiles& files, const Config& quantization) {
  return QuantizedReader(files, quantization).read();
}

}  // namespace heed::io
