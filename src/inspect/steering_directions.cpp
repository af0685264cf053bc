// Steering vectors of two sets of texts.
#include "heed/inspect/steering_directions.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "inspect/matrices.h"  // its pragmas come first

#include <eigen3/Eigen/Eigenvalues>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/nn/stack.h"
#include "heed/ops/shape.h"
#include "inspect/taps.h"

namespace heed {
namespace {

using Ids = std::vector<std::int64_t>;
using inspect::Matrix;

// Of each layer, a row of the stream for each text.
using LayerStreams = std::vector<Matrix>;

std::string stack_of_texts(const Model& model) {
  const auto* encoder = as<EncoderModel>(model);
  if (encoder != nullptr) return encoder->stack_name();
  return traits_of(model).is(ModelKind::encoder_decoder) ? "encoder" : "decoder";
}

void encode_text(const Model& model, const ModelInput& input, Context& context) {
  visit(
      model, [](const DualEncoderModel&) { HEED_ASSERT(false, "two towers have no stack of texts"); },
      [&](const auto& one) { one.encode(input, context); });
}

Eigen::RowVectorXd stream_of(const Tensor& value, bool mean_over_tokens) {
  const std::int64_t time = value.size(1), width = value.size(2);
  const Matrix tokens = inspect::matrix_of(reshape(value, {time, width}));
  return mean_over_tokens ? Eigen::RowVectorXd(tokens.colwise().mean())
                          : Eigen::RowVectorXd(tokens.row(time - 1));
}

class StreamReader {
 public:
  StreamReader(const Model& model, const SteeringOptions& options, std::int64_t total)
      : model_(model), options_(options), total_(total), stack_(stack_of_texts(model)) {
    const Stack* stack = model.stack_named(stack_);
    if (stack == nullptr || model.input().kind != InputKind::tokens)
      throw Error("steer: expected a model of texts with layers of sublayers, got " + model.family());
    layers_ = stack->layers.size();
  }

  LayerStreams operator()(std::span<const Ids> texts, const char* which) {
    if (texts.empty()) throw Error(std::string("steer: expected ") + which + " texts, got none");
    LayerStreams streams(layers_);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty())
        throw Error(std::string("steer: expected ") + which + " texts with tokens, got none in text " +
                    std::to_string(i + 1));
      read(texts[i], static_cast<std::int64_t>(i), std::ssize(texts), streams);
      if (options_.progress) options_.progress(++done_, total_);
    }
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      if (!streams[layer].allFinite())
        throw Error("steer: expected a stream of finite numbers, got others after layer " +
                    std::to_string(layer) + " (heed doctor tells more)");
    }
    return streams;
  }

  const std::string& stack() const { return stack_; }

 private:
  void read(const Ids& ids, std::int64_t row, std::int64_t rows, LayerStreams& streams) const {
    const NoGradients guard;
    Taps taps;
    taps.listen(stack_ + ".layers.*.out", [&](const std::string& name, Tensor& value) {
      const auto layer = inspect::layer_of_tap(name, stack_ + ".layers.", ".out");
      if (!layer) return;  // `out` of a sublayer
      Matrix& stream = streams[static_cast<std::size_t>(*layer)];
      if (stream.size() == 0) stream = Matrix::Zero(rows, value.size(2));
      stream.row(row) = stream_of(value, options_.mean_over_tokens);
    });
    Context context{.taps = &taps};
    encode_text(model_, {.ids = Tensor::from(ids, {1, std::ssize(ids)})}, context);
  }

  const Model& model_;
  const SteeringOptions& options_;
  std::int64_t total_, done_ = 0;
  std::string stack_;
  std::size_t layers_ = 0;
};

// The eigenvector of the largest eigenvalue of D^T D, through the smaller of D^T D and D D^T.
Eigen::VectorXd principal_direction(const Matrix& differences) {
  const bool wide = differences.rows() < differences.cols();
  const Eigen::MatrixXd products = wide ? Eigen::MatrixXd(differences * differences.transpose())
                                        : Eigen::MatrixXd(differences.transpose() * differences);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(products);
  const Eigen::VectorXd largest = solver.eigenvectors().col(products.cols() - 1);
  const Eigen::VectorXd direction = wide ? Eigen::VectorXd(differences.transpose() * largest) : largest;
  return direction.normalized();
}

Eigen::VectorXd direction_of(const Matrix& positive, const Matrix& negative, SteeringMethod method) {
  const Eigen::VectorXd apart = (positive.colwise().mean() - negative.colwise().mean()).transpose();
  if (method == SteeringMethod::mean) return apart;
  const Eigen::VectorXd direction = principal_direction(positive - negative);
  return direction.dot(apart) < 0 ? Eigen::VectorXd(-direction) : direction;
}

double separated_share(const Matrix& positive, const Matrix& negative, const Eigen::VectorXd& direction) {
  const Eigen::VectorXd above = positive * direction, below = negative * direction;
  const double middle = (above.mean() + below.mean()) / 2;
  const auto right = (above.array() > middle).count() + (below.array() < middle).count();
  return static_cast<double>(right) / static_cast<double>(above.size() + below.size());
}

}  // namespace

std::vector<SteeringDirection> steering_directions(const Model& model, std::span<const Ids> positive,
                                                   std::span<const Ids> negative,
                                                   const SteeringOptions& options) {
  if (options.method == SteeringMethod::pca && positive.size() != negative.size()) {
    throw Error("steer: expected as many positive as negative texts, which pca takes in pairs, got " +
                std::to_string(positive.size()) + " and " + std::to_string(negative.size()) +
                " (use --method mean)");
  }
  StreamReader read(model, options, std::ssize(positive) + std::ssize(negative));
  const LayerStreams of_positive = read(positive, "positive"), of_negative = read(negative, "negative");
  std::vector<SteeringDirection> directions;
  for (std::size_t layer = 0; layer < of_positive.size(); ++layer) {
    const Matrix &above = of_positive[layer], &below = of_negative[layer];
    const Eigen::VectorXd direction = direction_of(above, below, options.method);
    if (!direction.allFinite() || direction.norm() == 0)
      throw Error("steer: expected sets of texts that differ, got the same stream of both after layer " +
                  std::to_string(layer));
    std::vector<float> numbers(direction.data(), direction.data() + direction.size());
    const double lengths = above.rowwise().norm().sum() + below.rowwise().norm().sum();
    directions.push_back({.vector = {.stack = read.stack(),
                                     .layer = static_cast<std::int64_t>(layer),
                                     .vector = Tensor::from(numbers, {std::ssize(numbers)}),
                                     .tensor = {}},
                          .stream = lengths / static_cast<double>(above.rows() + below.rows()),
                          .separated = separated_share(above, below, direction)});
  }
  return directions;
}

}  // namespace heed
