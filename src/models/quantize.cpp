// Rounds the maps of a model by the chosen method, and describes it for config.json.
#include "models/quantize.h"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <set>
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

// The maps of a decoder read what an encoder makes, after it was quantized.
bool is_in_decoder(const TensorRow& row) { return row.name.find("decoder.") != std::string::npos; }

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

// What the maps of a group read while the model runs.
class GroupWatch {
 public:
  GroupWatch(const Weights& weights, ScaledGroup group)
      : weight_(weights[group.maps.front()]), group_(std::move(group)) {
    const std::int64_t k = weight_.size(1);
    gram_ = Tensor::zeros({k, k});
    sizes_ = std::make_shared<std::vector<double>>(static_cast<std::size_t>(k));
    weight_.observe([gram = gram_, sizes = sizes_](const Tensor& x) mutable {
      add_gram(x, gram);
      add_sizes(x, *sizes);
    });
  }
  ~GroupWatch() { weight_.observe({}); }
  GroupWatch(const GroupWatch&) = delete;

  // Exchanges scales between the maps and their source.
  void scale(Weights& weights, const CodeOptions& to) {
    if (group_.source.empty()) return;
    const std::vector<float> scales = best_scales(weights, group_, gram_, *sizes_, to);
    fold_scales(weights, group_, scales);
    gram_ = scaled_gram(gram_, group_, scales);
  }
  const std::vector<std::string>& maps() const { return group_.maps; }
  const Tensor& gram() const { return gram_; }

 private:
  Weight weight_;
  ScaledGroup group_;
  Tensor gram_;
  std::shared_ptr<std::vector<double>> sizes_;
};

// The rows to quantize, in groups, layer by layer; those in no group are groups of their own, with the layer
// that comes next.
std::vector<std::vector<ScaledGroup>> groups_of(const std::vector<const TensorRow*>& rows,
                                                const std::vector<std::vector<ScaledGroup>>& layers) {
  std::set<std::string> names;
  for (const TensorRow* row : rows) names.insert(row->name);
  std::vector<std::vector<ScaledGroup>> result;
  for (const std::vector<ScaledGroup>& layer : layers) {
    std::vector<ScaledGroup>& own = result.emplace_back();
    for (const ScaledGroup& group : layer) {
      const bool whole = std::all_of(group.maps.begin(), group.maps.end(),
                                     [&](const std::string& map) { return names.contains(map); });
      if (!whole) continue;
      own.push_back(group);
      for (const std::string& map : group.maps) names.erase(map);
    }
  }
  for (const std::string& name : names) result.push_back({{.maps = {name}}});
  return result;
}

void quantize_by_awq(Weights& weights, const std::vector<const TensorRow*>& rows, const CodeOptions& to,
                     const std::function<void()>& calibrate,
                     const std::vector<std::vector<ScaledGroup>>& layers, QuantizeReport& report) {
  const auto groups = groups_of(rows, layers);
  for (std::size_t begin = 0, end = begin; begin < groups.size(); begin = end) {
    std::int64_t bytes = 0;
    std::list<GroupWatch> watches;  // whose elements stay where they are
    for (; end < groups.size() && (end == begin || bytes < kGramBytes); ++end) {
      for (const ScaledGroup& group : groups[end]) {
        const std::int64_t k = weights[group.maps.front()].size(1);
        bytes += k * k * 4;
        watches.emplace_back(weights, group);
      }
    }
    if (watches.empty()) continue;
    calibrate();
    for (GroupWatch& watch : watches) watch.scale(weights, to);
    for (const GroupWatch& watch : watches) {
      for (const std::string& name : watch.maps()) {
        const Tensor numbers = weights[name].dequantized();
        Tensor made, values;
        double least = 0;
        for (const auto& codes : {nearest_codes(numbers, to), clipped_codes(numbers, watch.gram(), to)}) {
          const Tensor tensor = tensor_of(codes, numbers.shape()), copy = tensor.clone();
          const double error = relative_loss(numbers, copy, watch.gram());
          if (made.defined() && error >= least) continue;
          least = error;
          made = tensor;
          values = copy;
        }
        report.maps.push_back({name, relative_loss(numbers, values), least, to.bits});
        weights.replace(name, made);
      }
    }
  }
}

void quantize_output(Weights& weights, const CodeOptions& to, QuantizeReport& report) {
  const std::vector<TensorRow>& rows = weights.rows();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [](const TensorRow& r) { return r.target == AdapterTarget::output; });
  if (row == rows.end())
    throw Error("quantize: expected a model with an output map of its own for its bits, got none");
  if (row->shape[1] % to.group != 0) {
    report.kept.push_back(row->name);
    return;
  }
  const Tensor numbers = weights[row->name].dequantized(),
               made = tensor_of(nearest_codes(numbers, to), row->shape), values = made.clone();
  report.maps.push_back({row->name, relative_loss(numbers, values), {}, to.bits});
  weights.replace(row->name, made);
}

}  // namespace

QuantizeReport quantize(Weights& weights, const QuantizeOptions& options,
                        const std::function<void()>& calibrate,
                        const std::vector<std::vector<ScaledGroup>>& layers) {
  for (const int bits : {options.bits, options.output_bits == 0 ? 8 : options.output_bits}) {
    if (bits != 4 && bits != 8) throw Error("quantize: expected 4 or 8 bits, got " + std::to_string(bits));
  }
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
  if (options.output_bits > 0)
    quantize_output(weights, {options.output_bits, options.group, options.scale_type}, report);
  if (options.method == QuantizeMethod::awq) {
    quantize_by_awq(weights, rows, to, calibrate, layers, report);
    return report;
  }
  for (std::size_t begin = 0, end = begin; begin < rows.size(); begin = end) {
    std::int64_t bytes = 0;
    while (end < rows.size() && (end == begin || bytes < kGramBytes) &&
           is_in_decoder(*rows[end]) == is_in_decoder(*rows[begin])) {
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
      QuantizedMap& map =
          report.maps.emplace_back(QuantizedMap{name, relative_loss(numbers, values), {}, to.bits});
      if (watch) map.output_error = relative_loss(numbers, values, watch->gram(i));
      weights.replace(name, made);
    }
  }
  return report;
}

std::string quantization_config(const QuantizeReport& report, const QuantizeOptions& options) {
  std::map<int, std::vector<std::string>> modules;  // by their bits
  for (const QuantizedMap& map : report.maps) modules[map.bits].push_back(module_of_weight(map.name));
  JsonWriter json;
  json.begin_object().field("quant_method", "compressed-tensors").field("format", "pack-quantized");
  json.field("quantization_status", "compressed").key("config_groups").begin_object();
  int number = 0;
  for (const auto& [bits, targets] : modules) {
    json.key("group_" + std::to_string(number++)).begin_object().field("targets", targets);
    json.key("weights").begin_object().field("num_bits", bits).field("type", "int");
    json.field("symmetric", true).field("strategy", "group").field("group_size", options.group);
    json.field("dynamic", false).end_object();
    json.field("input_activations", nullptr).field("output_activations", nullptr).end_object();
  }
  json.end_object();
  return json.field("ignore", std::vector<std::string>{}).end_object().text();
}

}  // namespace heed
