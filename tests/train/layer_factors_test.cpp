// Learning rates that fall from the head of a model to its embeddings.
#include "train/optimizer/layer_factors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LayerFactors, FallFromTheHeadToTheEmbeddings) {
  std::vector<Parameter> parameters;
  for (const char* name : {"bert.embeddings.word.weight", "bert.encoder.layer.0.a.weight",
                           "bert.encoder.layer.1.a.0.weight", "bert.pooler.weight", "classifier.weight"})
    parameters.push_back({name, Tensor::zeros({1})});
  EXPECT_THAT(layer_factors(parameters, 0.5), ElementsAre(0.125, 0.25, 0.5, 1, 1));
  EXPECT_TRUE(layer_factors(parameters, 1).empty());
  parameters.push_back({"decoder.layers.0.weight", Tensor::zeros({1})});
  EXPECT_THAT(error_of([&] { layer_factors(parameters, 0.5); }),
              HasSubstr("expected a model with one stack of layers, got bert.encoder.layer, decoder.layers"));
}

}  // namespace
}  // namespace heed
