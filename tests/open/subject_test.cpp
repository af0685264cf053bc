// Inputs of models of every kind, with the labels of their positions, against what the parts give one by one.
#include "heed/open/subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/io/safetensors.h"
#include "heed/models/kind.h"
#include "heed/models/registry.h"
#include "heed/open/loaded_model.h"
#include "reference/error.h"
#include "tasks/file_input.h"

namespace heed {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Key;
using testing::UnorderedElementsAre;
using Ids = std::vector<std::int64_t>;

Ids ids_of(const Subject& subject, const char* name) {
  return subject.inputs.at(name).to_vector<std::int64_t>();
}

TEST(Subject, OfATextForADecoder) {
  const LoadedModel model = load("shakespeare");
  const ModelParts parts = parts_of(model);
  const Subject subject = subject_of_text(parts, "To be, or not", {}, {});
  const Encoding encoding = model.tokenizer().encode("To be, or not");
  EXPECT_THAT(subject.inputs, ElementsAre(Key("input_ids")));
  EXPECT_EQ(subject.inputs.at("input_ids").shape(), Shape({1, encoding.size()}));
  EXPECT_EQ(ids_of(subject, "input_ids"), encoding.ids);
  EXPECT_EQ(subject.read, encoding.ids);
  EXPECT_EQ(subject.tokens.at("decoder").keys, encoding.tokens);
  EXPECT_EQ(subject.following.size(), encoding.ids.size());
  EXPECT_EQ(subject.following.front(), encoding.ids[1]);
  EXPECT_EQ(subject.following.back(), -1);
  EXPECT_EQ(subject.title, "To be, or not");
  const Subject same = subject_of_ids(parts, encoding.ids);
  EXPECT_EQ(ids_of(same, "input_ids"), encoding.ids);
  EXPECT_EQ(same.tokens.at("decoder").queries, encoding.tokens);
  EXPECT_ERROR(subject_of_text(parts, "a", {}, "b"), ": target: expected an encoder-decoder, got a ");
  EXPECT_ERROR(subject_of_text(parts, "a", "b", {}), ": pair: expected an encoder, got a ");
}

TEST(Subject, OfATextWithItsTarget) {
  const LoadedModel model = load("en-fr");
  const ModelParts parts = parts_of(model);
  const Subject subject = subject_of_text(parts, "Good morning.", {}, "Bonjour.");
  const Ids target = model.tokenizer().encode_target("Bonjour.").ids;
  const Encoding source = model.tokenizer().encode("Good morning.");
  EXPECT_EQ(ids_of(subject, "input_ids"), source.ids);
  Ids fed = target;
  fed.insert(fed.begin(), model.encoder_decoder().decoder_start_id());
  fed.pop_back();
  EXPECT_EQ(ids_of(subject, "decoder_input_ids"), fed);
  EXPECT_EQ(subject.read, fed);
  EXPECT_EQ(subject.source, source.ids);
  EXPECT_EQ(subject.following, target);
  EXPECT_THAT(subject.tokens, ElementsAre(Key("cross"), Key("decoder"), Key("encoder")));
  EXPECT_EQ(subject.tokens.at("cross").keys, source.tokens);
  EXPECT_EQ(subject.tokens.at("cross").queries.back(), "</s>");
  EXPECT_EQ(subject.tokens.at("decoder").keys.size(), fed.size());
  EXPECT_EQ(subject.title, "Good morning. → Bonjour.");
  const Subject own = model.subject("Good morning.");
  EXPECT_EQ(model.tokenizer().decode(own.following), model.translate("Good morning."));
  EXPECT_ERROR(subject_of_text(parts, "Good morning.", {}, {}), ": target: missing (the decoder of marian");
}

TEST(Subject, ATargetMayBeShownWithItsEnd) {
  const LoadedModel model = load("en-fr");
  const ModelParts parts = parts_of(model);
  Ids target = model.tokenizer().encode_target("Bonjour.").ids;
  const Ids source = model.tokenizer().encode("Good morning.").ids;
  const SubjectOptions shown{.label = [](std::int64_t id) { return "<" + std::to_string(id) + ">"; },
                             .with_end = true};
  const Subject whole = subject_of_ids(parts, source, target, shown);
  EXPECT_EQ(whole.tokens.at("cross").queries.back(), "<" + std::to_string(target.back()) + ">");
  target.pop_back();  // the end
  const Subject part = subject_of_ids(parts, source, target, shown);
  EXPECT_EQ(part.tokens.at("cross").queries.back(), "…");
  EXPECT_EQ(part.read, whole.read);
  EXPECT_EQ(part.tokens.at("encoder").keys.front(), "<" + std::to_string(source.front()) + ">");
}

TEST(Subject, OfAnEncoder) {
  const LoadedModel model = load(HEED_FIXTURES "/encoders/bert-mlm");
  const ModelParts parts = parts_of(model);
  const std::string mask = model.tokenizer().token(model.tokenizer().mask_id().value());
  const Subject subject = subject_of_text(parts, "a " + mask, "b", {});
  const Encoding pair = model.tokenizer().encode_pair("a " + mask, "b");
  EXPECT_EQ(ids_of(subject, "input_ids"), pair.ids);
  EXPECT_EQ(ids_of(subject, "token_type_ids"), pair.type_ids);
  EXPECT_EQ(subject.title, "a " + mask + " / b");
  EXPECT_EQ(pair.ids[static_cast<std::size_t>(subject.mask_position.value())], model.tokenizer().mask_id());
  EXPECT_THAT(subject.following, Each(-1));
}

TEST(Subject, OfAnImage) {
  const LoadedModel model = load("cifar10");
  const ModelParts parts = parts_of(model);
  const std::string file = HEED_FIXTURES "/image/files/420.jpg";
  const Subject subject = subject_of_file(parts, file);
  EXPECT_EQ(subject.title, std::string("420.jpg"));
  const auto made = tasks::file_input(model.model().input(), model.file_processor(), file);
  EXPECT_EQ(subject.inputs.at("pixel_values").to_vector<float>(),
            made.tensors.at("pixel_values").to_vector<float>());
  EXPECT_EQ(subject.tokens.at("encoder").keys.front(), "[CLS]");
  EXPECT_EQ(std::ssize(subject.tokens.at("encoder").keys),
            subject.image.first + subject.image.rows * subject.image.columns);
  EXPECT_EQ(std::ssize(subject.image.rgb), 3 * subject.image.width * subject.image.height);
}

TEST(Subject, OfTensors) {
  const LoadedModel model = load("en-fr");
  const ModelParts parts = parts_of(model);
  const Tensor row = Tensor::from(Ids{5, 6, 0}, {1, 3});
  const Subject subject = subject_of_tensors(parts, {{"input_ids", row}, {"labels", row}}, "x");
  EXPECT_EQ(subject.following, Ids({5, 6, 0}));
  EXPECT_EQ(subject.read, Ids({model.encoder_decoder().decoder_start_id(), 5, 6}));
  EXPECT_EQ(subject.tokens.at("cross").queries.size(), 3U);
  EXPECT_ERROR(subject_of_tensors(parts, {{"input_ids", row}}, "x.safetensors"),
               "x.safetensors: expected decoder_input_ids or labels for the decoder of marian, got neither");
  EXPECT_ERROR(subject_of_tensors(parts, {{"input_ids", Tensor::from(Ids{1, 2}, {2, 1})}}, "x"),
               "x: expected one row in input_ids, got 2");
}

TEST(Subject, AsUsersGiveIt) {
  const LoadedModel translator = load("en-fr");
  const Subject own = subject_of(translator, {.given = "Good morning."});
  EXPECT_EQ(own.title, "Good morning. → " + translator.translate("Good morning."));
  EXPECT_EQ(own.following, translator.subject("Good morning.").following);
  const Subject given = subject_of(translator, {.given = "Good morning.", .target = "Bonjour."});
  EXPECT_EQ(given.read, subject_of_text(parts_of(translator), "Good morning.", {}, "Bonjour.").read);
  EXPECT_ERROR(subject_of(translator, {.given = "a", .pair = "b"}),
               "pair: expected an encoder, got a marian");
  EXPECT_ERROR(subject_of(translator, {.given = "a", .start = 1}), "start: expected a model that hears");
  EXPECT_ERROR(subject_of(translator, {.given = "a", .texts = {"b"}}), "text: expected a model of texts and");
  const LoadedModel decoder = load("shakespeare");
  const Subject longer = subject_of(decoder, {.given = "To be", .max_new_tokens = 3});
  EXPECT_EQ(longer.source.size(), decoder.tokenizer().encode("To be").ids.size() + 3);
  EXPECT_THAT(longer.title, testing::StartsWith("To be → "));
  EXPECT_ERROR(subject_of(decoder, {.given = "a", .target = "b"}), "target: expected an encoder-decoder");
  EXPECT_ERROR(subject_of(decoder, {.given = ""}), "missing text");
  const LoadedModel images = load("cifar10");
  const std::string file = HEED_FIXTURES "/image/files/420.jpg";
  EXPECT_EQ(subject_of(images, {.given = file}).title, "420.jpg");
  EXPECT_ERROR(subject_of(images, {.given = file, .pair = "a"}), "expected none for an image, got one");
}

TEST(Subject, OfAPartOfARecording) {
  const LoadedModel model = load(HEED_FIXTURES "/speech");
  const std::string file = HEED_FIXTURES "/speech/tones.flac";
  const Subject subject = subject_of(model, {.given = file, .start = 1});
  EXPECT_THAT(subject.title, testing::StartsWith("tones.flac → "));
  EXPECT_EQ(subject.sound.start, 1);
  EXPECT_EQ(subject.window, 1);
  EXPECT_THAT(subject.note, testing::HasSubstr("tones.flac: shown are 1 s to 2.00 s"));
  ASSERT_FALSE(subject.sound.words.empty());
  EXPECT_EQ(subject.tokens.at("cross").queries.size(), subject.following.size());
  EXPECT_EQ(Ids(subject.read.begin() + 1, subject.read.end()),
            Ids(subject.following.begin(), subject.following.end() - 1));
  EXPECT_FALSE(subject.alignment_heads.empty());
  EXPECT_ERROR(subject_of(model, {.given = file, .start = 99}),
               "expected a start before the end of the sound");
  EXPECT_ERROR(subject_of(model, {.given = file, .target = "a"}), "expected none for a recording, got one");
}

TEST(Subject, TextsSideBySide) {
  const LoadedModel model = load("en-fr");
  const std::vector<Encoding> texts{model.tokenizer().encode("Good morning."),
                                    model.tokenizer().encode("Yes.")};
  const std::vector<Encoding> targets{model.tokenizer().encode_target("Oui."),
                                      model.tokenizer().encode_target("Bonjour.")};
  const TensorMap inputs = side_by_side(model.model(), texts, targets);
  EXPECT_THAT(inputs, UnorderedElementsAre(Key("input_ids"), Key("attention_mask"), Key("labels"),
                                           Key("decoder_input_ids")));
  const Subject alone = subject_of_tokens(parts_of(model), texts[0], targets[0].ids);
  const Ids ids = inputs.at("input_ids").to_vector<std::int64_t>();
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + texts[0].size()), texts[0].ids);
  const Ids fed = inputs.at("decoder_input_ids").to_vector<std::int64_t>();
  EXPECT_EQ(Ids(fed.begin(), fed.begin() + targets[0].size()), alone.read);
  const Ids labels = inputs.at("labels").to_vector<std::int64_t>();
  const std::int64_t width = inputs.at("labels").size(1);
  for (std::int64_t row = 0; row < 2; ++row) {
    const Encoding& target = targets[static_cast<std::size_t>(row)];
    for (std::int64_t i = 0; i < width; ++i)
      EXPECT_EQ(labels[static_cast<std::size_t>(row * width + i)],
                i < target.size() ? target.ids[static_cast<std::size_t>(i)] : -100);
  }
}

}  // namespace
}  // namespace heed
