// Operations with several results. The walk back knows one gradient for each operation; here every result's
// goes to a joint node, which runs the closure once they have all arrived.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "heed/tensor.h"

namespace heed {

/// record() for several outputs of one floating dtype. The closure gets their gradients in order, undefined
/// for those that nothing used.
inline void record_results(std::vector<Tensor> outputs, const char* operation,
                           const std::vector<Tensor>& inputs,
                           std::function<std::vector<Tensor>(std::vector<Tensor>)> backward) {
  const DType dtype = outputs.front().dtype();
  auto arrived = std::make_shared<std::vector<Tensor>>(outputs.size());
  Tensor joint = Tensor::zeros({}, dtype);  // its gradient shows only that one of the others has arrived
  record(joint, operation, inputs, [arrived, backward = std::move(backward)](const Tensor&) {
    return backward(std::exchange(*arrived, {}));
  });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    record(outputs[i], operation, {joint}, [arrived, i, dtype](const Tensor& gradient) {
      (*arrived)[i] = gradient;
      return std::vector<Tensor>{Tensor::zeros({}, dtype)};
    });
  }
}

}  // namespace heed
