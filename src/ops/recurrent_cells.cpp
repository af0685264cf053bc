// The cells of LSTM and GRU alone: one step, whose sums come from elsewhere.
#include "heed/autograd.h"
#include "heed/ops/recurrent.h"
#include "kernels/recurrent.h"
#include "ops/several_results.h"

namespace heed {
namespace {

void check_cell(const char* name, const Tensor& state, const Tensor& sums, std::int64_t gates) {
  const bool fits = state.defined() && sums.defined() && state.rank() == 2 && sums.dtype() == state.dtype() &&
                    sums.shape() == Shape{state.size(0), gates * state.size(1)};
  if (fits) return;
  const auto text = [](const Tensor& t) { return t.defined() ? t.str() : std::string("an undefined one"); };
  throw Error(std::string(name) + ": expected a state [B, H] and sums [B, " + std::to_string(gates) +
              " H] of one type, got " + text(state) + " and " + text(sums));
}

Tensor zeros_or(const Tensor& gradient, const Tensor& like) {
  return gradient.defined() ? gradient.clone() : Tensor::zeros(like.shape(), like.dtype());
}

}  // namespace

RecurrentState lstm_cell(const Tensor& sums, const Tensor& c, Tensor* gates) {
  check_cell("lstm_cell", c, sums, 4);
  const kernels::Recurrence shape{c.size(0), 1, c.size(1)};
  const bool recording = needs_gradient({sums, c});
  const Tensor values = sums.clone(), before = c.detach().contiguous();
  const Tensor cells = recording || gates != nullptr ? Tensor::empty(c.shape(), c.dtype()) : Tensor();
  const RecurrentState next{Tensor::empty(c.shape(), c.dtype()), before.clone()};
  dispatch_float("lstm_cell", c.dtype(), [&]<class T>() {
    kernels::LstmStep<T> step{.gates = values.data<T>(), .h = next.h.data<T>(), .c = next.c.data<T>()};
    step.y = step.h;
    step.cells = cells.defined() ? cells.data<T>() : nullptr;
    kernels::lstm_step(shape, step);
  });
  if (gates != nullptr) *gates = recording ? values.clone() : values;  // the gradient overwrites them
  if (!recording) return next;
  record_results({next.h, next.c}, "lstm_cell", {sums, c}, [=](const std::vector<Tensor>& d) {
    const Tensor dh = zeros_or(d[0], before), dc = zeros_or(d[1], before);
    dispatch_float("lstm_cell", before.dtype(), [&]<class T>() {
      kernels::LstmStepBackward<T> step{.gates = values.data<T>(), .cells = cells.data<T>()};
      step.c_first = before.data<T>();
      step.dh = dh.data<T>();
      step.dc = dc.data<T>();
      kernels::lstm_step_backward(shape, step);
    });
    return std::vector<Tensor>{values, dc};
  });
  return next;
}

RecurrentState gru_cell(const Tensor& input_sums, const Tensor& state_sums, const Tensor& h, Tensor* gates) {
  check_cell("gru_cell", h, input_sums, 3);
  check_cell("gru_cell", h, state_sums, 3);
  const kernels::Recurrence shape{h.size(0), 1, h.size(1)};
  const bool recording = needs_gradient({input_sums, state_sums, h});
  const Tensor values = input_sums.clone(), sums = state_sums.clone(), before = h.detach().contiguous();
  Tensor next = before.clone();
  const Tensor y = Tensor::empty(h.shape(), h.dtype());
  dispatch_float("gru_cell", h.dtype(), [&]<class T>() {
    kernels::GruStep<T> step{.gates = values.data<T>(), .sums = sums.data<T>(), .sums_row = 3 * shape.hidden};
    step.h = next.data<T>();
    step.y = y.data<T>();
    step.keep = recording || gates != nullptr;
    kernels::gru_step(shape, step);
  });
  if (gates != nullptr) *gates = recording ? values.clone() : values;
  if (!recording) return {next, {}};
  record(next, "gru_cell", {input_sums, state_sums, h}, [=](const Tensor& d) {
    const Tensor dh = d.clone();
    dispatch_float("gru_cell", before.dtype(), [&]<class T>() {
      kernels::GruStepBackward<T> step{.gates = values.data<T>(), .sums = sums.data<T>(), .y = y.data<T>()};
      step.h_first = before.data<T>();
      step.dh = dh.data<T>();
      kernels::gru_step_backward(shape, step);
    });
    return std::vector<Tensor>{values, sums, dh};
  });
  return {next, {}};
}

}  // namespace heed
