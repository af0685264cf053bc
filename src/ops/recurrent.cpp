// LSTM and GRU. The products of all inputs with their weights are one matrix product; then each step is one
// product of the states with theirs, and one kernel for all gates. Backward through time is a single closure,
// which ends with one product for the gradient of each matrix. Then the cells alone, one step whose sums come
// from elsewhere; and both layers by their formulas.
#include "heed/ops/recurrent.h"

#include <algorithm>
#include <type_traits>

#include "heed/autograd.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"
#include "kernels/gemm.h"
#include "kernels/recurrent.h"
#include "ops/recording.h"
#include "ops/weight_product.h"

namespace heed {
namespace {

// What backward through time needs, dense and detached; undefined tensors are absent.
struct Tape {
  std::int64_t gates = 0;
  Tensor x = {}, weight_ih = {}, weight_hh = {}, h_first = {}, c_first = {}, lengths = {}, y = {};
  Tensor values = {};      // of the gates [B, T, G H]; becomes the gradient of the sums
  Tensor cells = {};       // LSTM: c after each step
  Tensor state_sums = {};  // GRU: W_hh h + b_hh [B, T, 3H]; becomes its gradient
  bool reverse = false;
  bool has_bias_ih = false, has_bias_hh = false;

  kernels::Recurrence shape() const {
    return {y.size(0), y.size(1), y.size(2), lengths.defined() ? lengths.data<std::int64_t>() : nullptr,
            reverse};
  }
};

template <class T>
const T* optional_data(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

Tensor detached(const Tensor& t) { return t.defined() ? t.detach().contiguous() : t; }

Tensor copy_or_zeros(const Tensor& t, const Shape& shape, DType dtype) {
  return t.defined() ? t.clone() : Tensor::zeros(shape, dtype);
}

// W_ih x + b_ih for all steps, [B, T, G H].
Tensor input_sums(const Tensor& x, const RecurrentWeights& weights, const PackedWeight* packed) {
  const NoGradients guard;
  if (packed == nullptr || x.dtype() != DType::f32) return linear(x, weights.weight_ih, weights.bias_ih);
  return stored_linears(x, {{weights.weight_ih, packed, weights.bias_ih}}).front();
}

// The bias of the states in the dtype of the sums; undefined where there is none.
Tensor state_bias(const RecurrentWeights& weights, DType dtype) {
  return weights.bias_hh.defined() ? weights.bias_hh.detach().to(dtype).contiguous() : Tensor();
}

// The values of gates or cells for the caller: 0 at the steps that a row does not have. A recorded gradient
// will overwrite those of the tape.
Tensor traced(const Tape& tape, const Tensor& values, bool recording) {
  Tensor result = recording ? values.clone() : values;
  for (std::int64_t b = 0; tape.lengths.defined() && b < result.size(0); ++b) {
    const Tensor padding =
        slice(slice(result, 0, b, b + 1), 1, tape.lengths.data<std::int64_t>()[b], result.size(1));
    padding.copy_from(Tensor::zeros(padding.shape(), padding.dtype()));
  }
  return result;
}

template <class Step>
void for_each_step(std::int64_t time, bool from_the_end, Step step) {
  for (std::int64_t i = 0; i < time; ++i) step(from_the_end ? time - 1 - i : i);
}

// Calls steps(begin, end) for rows that one thread takes through all steps, without waiting for others at
// each of them. Where rows are few, or the weights too large for every thread's cache, all rows at once: then
// the threads share each step.
template <class T, class Steps>
void share_rows(const kernels::Recurrence& shape, const Tensor& weight_hh, Steps steps) {
  constexpr std::int64_t kRows = 16, kCachedBytes = 1 << 20;
  const bool alone = std::is_same_v<T, float> && shape.batch >= kRows * threads() &&
                     weight_hh.numel() * std::int64_t{sizeof(T)} <= kCachedBytes;
  if (alone) {
    parallel_for(shape.batch, kRows, steps);
  } else {
    steps(0, shape.batch);
  }
}

template <class T>
T* rows_from(T* p, std::int64_t row, std::int64_t stride) {
  return p != nullptr ? p + row * stride : nullptr;
}

std::vector<Tensor> inputs_of(const Tensor& x, const RecurrentWeights& w, const RecurrentState& initial) {
  std::vector<Tensor> inputs{x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh, initial.h};
  inputs.push_back(initial.c);
  return inputs;
}

Tape tape_of(std::int64_t gates, const Tensor& x, const RecurrentWeights& w, const RecurrentState& initial,
             const RecurrentOptions& options) {
  Tape tape{.gates = gates};
  tape.x = detached(x);
  tape.weight_ih = detached(w.weight_ih);
  tape.weight_hh = detached(w.weight_hh);
  tape.h_first = detached(initial.h);
  tape.c_first = detached(initial.c);
  tape.lengths = detached(options.lengths);
  tape.reverse = options.reverse;
  tape.has_bias_ih = w.bias_ih.defined();
  tape.has_bias_hh = w.bias_hh.defined();
  tape.y = Tensor::empty({x.size(0), x.size(1), w.weight_hh.size(1)}, x.dtype());
  return tape;
}

// The gradients of x, weights, biases and initial state, once those of the sums are there: `of_inputs` of
// W_ih x + b_ih, `of_states` of W_hh h + b_hh, both [B, T, G H].
template <class T>
std::vector<Tensor> gradients_of(const Tape& tape, const Tensor& of_inputs, const Tensor& of_states,
                                 const RecurrentState& first) {
  const DType dtype = of_inputs.dtype();
  const kernels::Recurrence shape = tape.shape();
  const std::int64_t rows = shape.batch * shape.time, in = tape.x.size(2), out = tape.gates * shape.hidden;
  const Tensor before = Tensor::empty(tape.y.shape(), dtype);
  kernels::states_before<T>(shape, tape.y.data<T>(), optional_data<T>(tape.h_first), before.data<T>());
  Tensor dx = Tensor::empty(tape.x.shape(), dtype);
  Tensor dweight_ih = Tensor::empty(tape.weight_ih.shape(), dtype);
  Tensor dweight_hh = Tensor::empty(tape.weight_hh.shape(), dtype);
  const T *inputs = of_inputs.data<T>(), *states = of_states.data<T>();
  kernels::gemm<T>({.m = rows,
                    .n = in,
                    .k = out,
                    .a = kernels::row_major(inputs, out),
                    .b = matrix_of(tape.weight_ih),
                    .c = dx.data<T>(),
                    .ldc = in});
  const auto weight_gradient = [&](const T* sums, const Tensor& operands, const Tensor& gradient) {
    const std::int64_t columns = gradient.size(1);
    kernels::gemm<T>({.m = out,
                      .n = columns,
                      .k = rows,
                      .a = kernels::row_major(sums, out).transposed(),
                      .b = kernels::row_major(operands.data<T>(), columns),
                      .c = gradient.data<T>(),
                      .ldc = columns});
  };
  weight_gradient(inputs, tape.x, dweight_ih);
  weight_gradient(states, before, dweight_hh);
  const auto bias = [&](bool wanted, const T* sums) {
    if (!wanted) return Tensor();
    Tensor gradient = Tensor::empty({out}, dtype);
    kernels::bias_gradient(sums, gradient.data<T>(), rows, out);
    return gradient;
  };
  return {dx,
          dweight_ih,
          dweight_hh,
          bias(tape.has_bias_ih, inputs),
          bias(tape.has_bias_hh, states),
          tape.h_first.defined() ? first.h : Tensor(),
          tape.c_first.defined() ? first.c : Tensor()};
}

template <class T>
void lstm_steps(const Tape& tape, const RecurrentWeights& w, const RecurrentState& state,
                const PackedWeight* packed) {
  const kernels::Recurrence shape = tape.shape();
  const std::int64_t out = 4 * shape.hidden;
  const Tensor bias = state_bias(w, tape.y.dtype());
  const RepeatedProduct<T> product(tape.weight_hh, ProductOf::transpose, shape.time, packed);
  share_rows<T>(shape, tape.weight_hh, [&](std::int64_t begin, std::int64_t end) {
    const kernels::Recurrence rows = shape.rows(begin, end);
    const std::int64_t h = shape.hidden, y = shape.time * h;
    kernels::LstmStep<T> step{.gates = tape.values.data<T>() + begin * shape.time * out};
    step.h = state.h.data<T>() + begin * h;
    step.c = state.c.data<T>() + begin * h;
    step.y = tape.y.data<T>() + begin * y;
    step.cells = tape.cells.defined() ? tape.cells.data<T>() + begin * y : nullptr;
    for_each_step(shape.time, shape.reverse, [&](std::int64_t t) {
      product({.m = rows.batch,
               .x = step.h,
               .ldx = h,
               .bias = optional_data<T>(bias),
               .y = step.gates + t * out,
               .ldy = shape.time * out,
               .accumulate = true});
      step.t = t;
      kernels::lstm_step(rows, step);
    });
  });
}

// d: the gradients of y, h and c, undefined where there are none.
template <class T>
std::vector<Tensor> lstm_backward(const Tape& tape, const std::vector<Tensor>& d) {
  const kernels::Recurrence shape = tape.shape();
  const Shape state{shape.batch, shape.hidden};
  const DType dtype = tape.y.dtype();
  const std::int64_t out = 4 * shape.hidden;
  const Tensor dy = detached(d[0]);
  const RecurrentState first{copy_or_zeros(d[1], state, dtype), copy_or_zeros(d[2], state, dtype)};
  const RepeatedProduct<T> product(tape.weight_hh, ProductOf::itself, shape.time);
  share_rows<T>(shape, tape.weight_hh, [&](std::int64_t begin, std::int64_t end) {
    const kernels::Recurrence rows = shape.rows(begin, end);
    const std::int64_t h = shape.hidden, y = shape.time * h;
    kernels::LstmStepBackward<T> step{.gates = tape.values.data<T>() + begin * shape.time * out};
    step.cells = tape.cells.data<T>() + begin * y;
    step.c_first = rows_from(optional_data<T>(tape.c_first), begin, h);
    step.dy = rows_from(optional_data<T>(dy), begin, y);
    step.dh = first.h.data<T>() + begin * h;
    step.dc = first.c.data<T>() + begin * h;
    for_each_step(shape.time, !shape.reverse, [&](std::int64_t t) {
      step.t = t;
      kernels::lstm_step_backward(rows, step);
      product({.m = rows.batch,
               .x = step.gates + t * out,
               .ldx = shape.time * out,
               .y = step.dh,
               .ldy = h,
               .accumulate = true});
    });
  });
  return gradients_of<T>(tape, tape.values, tape.values, first);
}

template <class T>
void gru_steps(const Tape& tape, const RecurrentWeights& w, const Tensor& h, const PackedWeight* packed) {
  const kernels::Recurrence shape = tape.shape();
  const std::int64_t out = 3 * shape.hidden;
  const bool keep = tape.state_sums.size(1) == shape.time;  // else one step's sums at a time
  const Tensor bias = state_bias(w, tape.y.dtype());
  const RepeatedProduct<T> product(tape.weight_hh, ProductOf::transpose, shape.time, packed);
  share_rows<T>(shape, tape.weight_hh, [&](std::int64_t begin, std::int64_t end) {
    const kernels::Recurrence rows = shape.rows(begin, end);
    kernels::GruStep<T> step{.gates = tape.values.data<T>() + begin * shape.time * out};
    step.h = h.data<T>() + begin * shape.hidden;
    step.y = tape.y.data<T>() + begin * shape.time * shape.hidden;
    step.sums_row = tape.state_sums.size(1) * out;
    step.keep = keep;
    for_each_step(shape.time, shape.reverse, [&](std::int64_t t) {
      T* sums = tape.state_sums.data<T>() + begin * step.sums_row + (keep ? t * out : 0);
      product({.m = rows.batch,
               .x = step.h,
               .ldx = shape.hidden,
               .bias = optional_data<T>(bias),
               .y = sums,
               .ldy = step.sums_row});
      step.t = t;
      step.sums = sums;
      kernels::gru_step(rows, step);
    });
  });
}

template <class T>
std::vector<Tensor> gru_backward(const Tape& tape, const std::vector<Tensor>& d) {
  const kernels::Recurrence shape = tape.shape();
  const std::int64_t out = 3 * shape.hidden;
  const Tensor dy = detached(d[0]);
  const RecurrentState first{copy_or_zeros(d[1], {shape.batch, shape.hidden}, tape.y.dtype()), {}};
  const RepeatedProduct<T> product(tape.weight_hh, ProductOf::itself, shape.time);
  share_rows<T>(shape, tape.weight_hh, [&](std::int64_t begin, std::int64_t end) {
    const kernels::Recurrence rows = shape.rows(begin, end);
    const std::int64_t h = shape.hidden, y = shape.time * h;
    kernels::GruStepBackward<T> step{.gates = tape.values.data<T>() + begin * shape.time * out};
    step.sums = tape.state_sums.data<T>() + begin * shape.time * out;
    step.y = tape.y.data<T>() + begin * y;
    step.h_first = rows_from(optional_data<T>(tape.h_first), begin, h);
    step.dy = rows_from(optional_data<T>(dy), begin, y);
    step.dh = first.h.data<T>() + begin * h;
    for_each_step(shape.time, !shape.reverse, [&](std::int64_t t) {
      step.t = t;
      kernels::gru_step_backward(rows, step);
      product({.m = rows.batch,
               .x = step.sums + t * out,
               .ldx = shape.time * out,
               .y = step.dh,
               .ldy = h,
               .accumulate = true});
    });
  });
  return gradients_of<T>(tape, tape.values, tape.state_sums, first);
}

// Throws Error unless everything fits; `gates` is 4 for LSTM, which alone has cells.
void check_recurrent(const char* name, std::int64_t gates, const Tensor& x, const RecurrentWeights& w,
                     const RecurrentState& initial, const RecurrentOptions& options) {
  const auto fail = [&](const std::string& expected, const Tensor& got) {
    throw Error(std::string(name) + ": expected " + expected + ", got " +
                (got.defined() ? got.str() : "an undefined one"));
  };
  if (!x.defined() || x.rank() != 3 || x.size(1) < 1) fail("x [B, T, D] of at least one step", x);
  const Tensor& ih = w.weight_ih;
  if (!w.weight_hh.defined() || w.weight_hh.rank() != 2 ||
      w.weight_hh.size(0) != gates * w.weight_hh.size(1)) {
    fail("weight_hh [" + std::to_string(gates) + " H, H]", w.weight_hh);
  }
  const std::int64_t hidden = w.weight_hh.size(1), out = gates * hidden;
  if (!ih.defined() || ih.shape() != Shape{out, x.size(2)})
    fail("weight_ih " + Shape{out, x.size(2)}.str(), ih);
  const bool narrow = x.dtype() == DType::f32 && !needs_gradient({ih, w.weight_hh});
  for (const Tensor* weight : {&ih, &w.weight_hh}) {
    const bool widens = narrow && (weight->dtype() == DType::bf16 || weight->dtype() == DType::f16);
    if (weight->dtype() != x.dtype() && !widens) fail("weights like x " + x.str(), *weight);
  }
  for (const Tensor* bias : {&w.bias_ih, &w.bias_hh}) {
    if (bias->defined() && bias->shape() != Shape{out}) fail("biases " + Shape{out}.str(), *bias);
  }
  for (const Tensor* state : {&initial.h, &initial.c}) {
    if (!state->defined()) continue;
    if (state->shape() != Shape{x.size(0), hidden} || state->dtype() != x.dtype())
      fail("an initial state " + Shape{x.size(0), hidden}.str() + " like x " + x.str(), *state);
    if (state == &initial.c && gates == 3) fail("no cell in the state of a GRU", *state);
  }
  if (!options.lengths.defined()) return;
  if (options.lengths.dtype() != DType::i64 || options.lengths.shape() != Shape{x.size(0)})
    fail("lengths i64" + Shape{x.size(0)}.str(), options.lengths);
  for (const std::int64_t length : options.lengths.to_vector<std::int64_t>()) {
    if (length < 0 || length > x.size(1))
      throw Error(std::string(name) + ": expected lengths in [0, " + std::to_string(x.size(1)) + "], got " +
                  std::to_string(length));
  }
}

}  // namespace

RecurrentResult stored_lstm(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                            const RecurrentOptions& options, const PackedRecurrent& packed) {
  check_recurrent("lstm", 4, x, weights, initial, options);
  const std::vector<Tensor> inputs = inputs_of(x, weights, initial);
  const bool recording = needs_gradient(inputs);
  Tape tape = tape_of(4, x, weights, initial, options);
  tape.values = input_sums(tape.x, weights, recording ? nullptr : packed.ih);
  if (recording || options.trace) tape.cells = Tensor::empty(tape.y.shape(), x.dtype());
  const Shape shape{x.size(0), tape.y.size(2)};
  RecurrentResult result{
      tape.y.detach(),
      {copy_or_zeros(tape.h_first, shape, x.dtype()), copy_or_zeros(tape.c_first, shape, x.dtype())}};
  dispatch_float("lstm", x.dtype(), [&]<class T>() {
    lstm_steps<T>(tape, weights, result.state, recording ? nullptr : packed.hh);
  });
  if (options.trace) {
    result.gates = traced(tape, tape.values, recording);
    result.cells = traced(tape, tape.cells, recording);
  }
  if (!recording) return result;
  record_results(
      {result.y, result.state.h, result.state.c}, "lstm", inputs, [tape](const std::vector<Tensor>& d) {
        return dispatch_float("lstm", tape.y.dtype(), [&]<class T>() { return lstm_backward<T>(tape, d); });
      });
  return result;
}

RecurrentResult stored_gru(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                           const RecurrentOptions& options, const PackedRecurrent& packed) {
  check_recurrent("gru", 3, x, weights, initial, options);
  const std::vector<Tensor> inputs = inputs_of(x, weights, initial);
  const bool recording = needs_gradient(inputs);
  Tape tape = tape_of(3, x, weights, initial, options);
  tape.values = input_sums(tape.x, weights, recording ? nullptr : packed.ih);
  const std::int64_t kept = recording || options.trace ? x.size(1) : 1;
  tape.state_sums = Tensor::empty({x.size(0), kept, tape.values.size(2)}, x.dtype());
  const Shape shape{x.size(0), tape.y.size(2)};
  RecurrentResult result{tape.y.detach(), {copy_or_zeros(tape.h_first, shape, x.dtype()), {}}};
  dispatch_float("gru", x.dtype(), [&]<class T>() {
    gru_steps<T>(tape, weights, result.state.h, recording ? nullptr : packed.hh);
  });
  if (options.trace) result.gates = traced(tape, tape.values, recording);
  if (!recording) return result;
  record_results({result.y, result.state.h}, "gru", inputs, [tape](const std::vector<Tensor>& d) {
    return dispatch_float("gru", tape.y.dtype(), [&]<class T>() { return gru_backward<T>(tape, d); });
  });
  return result;
}

RecurrentResult lstm(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                     const RecurrentOptions& options) {
  return stored_lstm(x, weights, initial, options, {});
}

RecurrentResult gru(const Tensor& x, const RecurrentWeights& weights, const RecurrentState& initial,
                    const RecurrentOptions& options) {
  return stored_gru(x, weights, initial, options, {});
}

namespace {

void check_cell(const char* name, const Tensor& state, const Tensor& sums, std::int64_t gates) {
  const bool fits = state.defined() && sums.defined() && state.rank() == 2 && sums.dtype() == state.dtype() &&
                    sums.shape() == Shape{state.size(0), gates * state.size(1)};
  if (fits) return;
  const auto text = [](const Tensor& t) { return t.defined() ? t.str() : std::string("an undefined one"); };
  throw Error(std::string(name) + ": expected a state [B, H] and sums [B, " + std::to_string(gates) +
              " H] of one type, got " + text(state) + " and " + text(sums));
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
    const Tensor dh = copy_or_zeros(d[0], before.shape(), before.dtype());
    const Tensor dc = copy_or_zeros(d[1], before.shape(), before.dtype());
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

namespace {

// 1 where row b has step t, else 0: [B, 1].
Tensor has_step(const Tensor& x, const RecurrentOptions& options, std::int64_t t) {
  Tensor present = Tensor::full({x.size(0), 1}, 1.0, DType::f64);
  if (options.lengths.defined()) {
    const std::vector<std::int64_t> lengths = options.lengths.to_vector<std::int64_t>();
    for (std::size_t b = 0; b < lengths.size(); ++b) present.data<double>()[b] = t < lengths[b] ? 1.0 : 0.0;
  }
  return present.to(x.dtype());
}

// x where `present` is 1, `default_value` where it is 0.
Tensor choose(const Tensor& present, const Tensor& x, const Tensor& default_value) {
  return x * present + default_value * (present * -1.0 + 1.0);
}

// Runs `cell`, from the sums of inputs and states and the state to the next state, over all steps.
template <class Cell>
RecurrentResult run_formula(const Tensor& x, const RecurrentWeights& w, const RecurrentState& initial,
                            const RecurrentOptions& options, Cell cell) {
  const std::int64_t batch = x.size(0), time = x.size(1), hidden = w.weight_hh.size(1);
  const auto or_zeros = [&](const Tensor& t) {
    return t.defined() ? t : Tensor::zeros({batch, hidden}, x.dtype());
  };
  RecurrentState state{or_zeros(initial.h), or_zeros(initial.c)};
  std::vector<Tensor> outputs(static_cast<std::size_t>(time));
  for (std::int64_t i = 0; i < time; ++i) {
    const std::int64_t t = options.reverse ? time - 1 - i : i;
    const Tensor input = reshape(slice(x, 1, t, t + 1), {batch, x.size(2)});
    const RecurrentState next =
        cell(linear(input, w.weight_ih, w.bias_ih), linear(state.h, w.weight_hh, w.bias_hh), state);
    const Tensor present = has_step(x, options, t);
    state = {choose(present, next.h, state.h), choose(present, next.c, state.c)};
    outputs[static_cast<std::size_t>(t)] = next.h * present;
  }
  return {stack(outputs, 1), state};
}

// Gate `index` of sums [B, G H].
Tensor gate(const Tensor& sums, std::int64_t index, std::int64_t hidden) {
  return slice(sums, 1, index * hidden, (index + 1) * hidden);
}

}  // namespace

RecurrentResult lstm_by_formula(const Tensor& x, const RecurrentWeights& weights,
                                const RecurrentState& initial, const RecurrentOptions& options) {
  check_recurrent("lstm", 4, x, weights, initial, options);
  const std::int64_t hidden = weights.weight_hh.size(1);
  return run_formula(x, weights, initial, options, [&](const Tensor& a, const Tensor& b, const auto& state) {
    const Tensor sums = a + b;
    const Tensor in = sigmoid(gate(sums, 0, hidden)), forget = sigmoid(gate(sums, 1, hidden));
    const Tensor candidate = tanh(gate(sums, 2, hidden)), out = sigmoid(gate(sums, 3, hidden));
    const Tensor c = forget * state.c + in * candidate;
    return RecurrentState{out * tanh(c), c};
  });
}

RecurrentResult gru_by_formula(const Tensor& x, const RecurrentWeights& weights,
                               const RecurrentState& initial, const RecurrentOptions& options) {
  check_recurrent("gru", 3, x, weights, initial, options);
  const std::int64_t hidden = weights.weight_hh.size(1);
  RecurrentResult result =
      run_formula(x, weights, initial, options, [&](const Tensor& a, const Tensor& b, const auto& state) {
        const Tensor reset = sigmoid(gate(a, 0, hidden) + gate(b, 0, hidden));
        const Tensor update = sigmoid(gate(a, 1, hidden) + gate(b, 1, hidden));
        const Tensor candidate = tanh(gate(a, 2, hidden) + reset * gate(b, 2, hidden));
        return RecurrentState{(update * -1.0 + 1.0) * candidate + update * state.h, state.c};
      });
  result.state.c = {};
  return result;
}

}  // namespace heed
