#include "models/quantize.h"

#include <algorithm>
#include <utility>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "ops/quantization.h"

namespace heed {
namespace {

constexpr std::int64_t kGramBytes = std::int64_t{3} << 29;  // of inputs' products that are kept at once

bool is_map(const TensorRow& row) {
  return (row.target == AdapterTarget::linear || row.target == AdapterTarget::linear_in_out) && !row.head;
}

std::string module_of_weight(const std::string& weight) { return weight.substr(0, weight.rfind(".weight")); }

// The sums of x^T x of some maps while the model runs.
class Watch {
 public:
  Watch(const Weights& weights, const std::vector<const TensorRow*>& rows) : weights_(weights), rows_(rows) {
    for (const TensorRow* row : rows_) {
      Tensor& gram = grams_.emplace_back(Tensor::zeros({row->shape[1], row->shape[1]}));
      weights_[row->name].observe([gram](const Tensor& x) mutable { add_gram(x, gram); });
    }
  }
  ~Watch() {
    for (const TensorRow* row : rows_) weights_[row->name].observe({});
  }
  Watch(const Watch&) = delete;
  const Tensor& gram(std::size_t i) const { return grams_[i]; }

 private:
  const Weights& weights_;
  const std::vector<const TensorRow*>& rows_;
  std::vector<Tensor> grams_;
};

}  // namespace

QuantizeReport quantize(Weights& weights, const QuantizeOptions& options,
                        const std::function<void()>& calibrate) {
  if (options.bits != 4 && options.bits != 8)
    throw Error("quantize: expected 4 or 8 bits, got " + std::to_string(options.bits));
  if (options.group < 32 || options.group % 32 != 0)
    throw Error("quantize: expected groups of a multiple of 32 numbers, got " +
                std::to_string(options.group));
  if (weights.is_adapted())
    throw Error("quantize: expected a model without adapters, got one with (merge them first)");
  const NoGradients guard;
  QuantizeReport report;
  std::vector<const TensorRow*> rows;
  for (const TensorRow& row : weights.rows()) {
    if (!is_map(row)) continue;
    if (row.target == AdapterTarget::linear_in_out)
      throw Error("quantize: expected maps stored as [out, in], got " + row.name +
                  " [in, out], for which the written format has no place");
    if (row.shape.rank() == 2 && row.shape[1] % options.group == 0) {
      rows.push_back(&row);
    } else {
      report.kept.push_back(row.name);
    }
  }
  if (rows.empty())
    throw Error("quantize: expected linear maps whose rows are whole groups of " +
                std::to_string(options.group) + " numbers, got none (choose a smaller group)");
  const CodeOptions to{options.bits, options.group, options.scale_type};
  for (std::size_t begin = 0, end = begin; begin < rows.size(); begin = end) {
    std::int64_t bytes = 0;
    while (end < rows.size() && (end == begin || bytes < kGramBytes)) {
      bytes += rows[end]->shape[1] * rows[end]->shape[1] * 4;
      ++end;
    }
    const std::vector<const TensorRow*> some(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                                             rows.begin() + static_cast<std::ptrdiff_t>(end));
    std::optional<Watch> watch;
    if (options.method == QuantizeMethod::gptq) {
      watch.emplace(weights, some);
      calibrate();
    }
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::string& name = some[i]->name;
      const Tensor numbers = weights[name].dequantized();
      const auto codes = watch ? gptq_codes(numbers, watch->gram(i), to) : nearest_codes(numbers, to);
      const Tensor made = tensor_of(codes, some[i]->shape), values = made.clone();
      QuantizedMap& map = report.maps.emplace_back(QuantizedMap{name, relative_error(numbers, values)});
      if (watch) map.output_error = relative_error(numbers, values, watch->gram(i));
      weights.replace(name, made);
    }
  }
  return report;
}

std::string quantization_config(const QuantizeReport& report, const QuantizeOptions& options) {
  std::vector<std::string> modules;
  for (const QuantizedMap& map : report.maps) modules.push_back(module_of_weight(map.name));
  JsonWriter json;
  json.begin_object().field("quant_method", "compressed-tensors").field("format", "pack-quantized");
  json.field("quantization_status", "compressed");
  json.key("config_groups").begin_object().key("group_0").begin_object();
  json.field("targets", modules);
  json.key("weights").begin_object().field("num_bits", options.bits).field("type", "int");
  json.field("symmetric", true).field("strategy", "group").field("group_size", options.group);
  json.field("dynamic", false).end_object();
  json.field("input_activations", nullptr).field("output_activations", nullptr);
  json.end_object().end_object();
  return json.field("ignore", std::vector<std::string>{}).end_object().text();
}

}  // namespace heed
