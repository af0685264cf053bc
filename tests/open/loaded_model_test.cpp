// The front door: the same results as the layers below, and errors that say what a model can do.
#include "heed/open/loaded_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/heed.h"
#include "heed/models/find_model.h"
#include "heed/models/model.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "heed/tasks/embed.h"
#include "heed/tasks/similarity.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string fixture(const std::string& name) { return HEED_FIXTURES "/" + name; }

std::vector<float> numbers(const Tensor& tensor) { return tensor.contiguous().to_vector<float>(); }

TEST(LoadedModel, TranslatesAsTheFunctionsBelow) {
  const LoadedModel model = load("en-fr");
  EXPECT_EQ(model.kind(), "a marian encoder-decoder");
  EXPECT_THAT(model.tasks(), ElementsAre(Task::translate, Task::embed, Task::attention));
  EXPECT_EQ(model.translate("The black cat drinks milk."), "Le chat noir boit du lait.");
  const std::vector<std::string> texts{"Good morning.", "", "I like tea."};
  TranslateOptions options;
  options.generation = load_generation_options(model.directory());
  const auto expected = translate(*load_as<EncoderDecoderModel>(model.directory()),
                                  *load_tokenizer(model.directory()), texts, options);
  const std::vector<std::string> translations = model.translate(texts);
  ASSERT_EQ(translations.size(), 3u);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(translations[i], expected[i].text()) << texts[i];
  EXPECT_THAT(model.translate({"Good morning.", "I like tea."}),
              ElementsAre(translations[0], translations[2]));
}

TEST(LoadedModel, StopsWhereItsFileWasOverwritten) {
  const TemporaryFolder folder;
  std::filesystem::copy(find_model("shakespeare"), folder.path(), std::filesystem::copy_options::recursive);
  const std::filesystem::path file = folder / "model.safetensors";
  LoadedModel model = load(folder.path().string());
  model.generation().max_new_tokens = 4;
  const std::string text = model.generate("KING");
  write_file(file, slurp(file));  // beside, and renamed
  EXPECT_EQ(model.generate("KING"), text);
  const LoadedModel renamed = load(folder.path().string());
  spill(file, slurp(file) + "x");
  EXPECT_EQ(model.generate("KING"), text);
  EXPECT_ERROR(renamed.generate("KING"), file.string() + ": expected the ");
  EXPECT_ERROR(renamed.embed({"KING"}), "that was written to since");
}

TEST(LoadedModel, AFileDoesNotAskForMoreThanTheModelHasPositions) {
  const TemporaryFolder folder;
  std::filesystem::copy(find_model("shakespeare"), folder.path(), std::filesystem::copy_options::recursive);
  spill(folder / "generation_config.json", R"({"max_new_tokens": 1000000000000000000})");
  EXPECT_EQ(load(folder.path().string()).generation().max_new_tokens, 256);
  spill(folder / "generation_config.json", R"({"max_length": 1000000000000000000})");
  EXPECT_EQ(load(folder.path().string()).generation().max_length, 256);
  spill(folder / "generation_config.json", R"({"max_new_tokens": 7})");
  EXPECT_EQ(load(folder.path().string()).generation().max_new_tokens, 7);
}

TEST(LoadedModel, StreamsAndStops) {
  LoadedModel model = load("shakespeare");
  EXPECT_THAT(model.tasks(), ElementsAre(Task::generate, Task::embed, Task::attention));
  model.generation().max_new_tokens = 12;
  std::string streamed;
  const auto listen = [&](const std::string& part) {
    streamed += part;
    return true;
  };
  const std::string text = model.generate("KING RICHARD", {.on_text = listen});
  EXPECT_THAT(text, testing::StartsWith(" II:"));
  EXPECT_EQ(streamed, text);
  const std::string stopped = model.generate("KING RICHARD", {.stop_strings = {"II"}});
  EXPECT_THAT(stopped, AllOf(HasSubstr("II"), testing::Not(HasSubstr("\n"))));
  std::size_t parts = 0;
  const std::string ended =
      model.generate("KING RICHARD", {.on_text = [&](const std::string&) { return ++parts < 2; }});
  EXPECT_EQ(parts, 2u);
  EXPECT_LT(ended.size(), text.size());
  const std::atomic<bool> stop{true};
  EXPECT_THROW(model.generate("KING RICHARD", {.stop = &stop}), Canceled);
}

TEST(LoadedModel, CopiesShareTheModelAndHaveTheirOwnSettings) {
  LoadedModel model = load("shakespeare");
  model.generation().max_new_tokens = 2;
  LoadedModel longer = model;
  longer.generation().max_new_tokens = 8;
  EXPECT_EQ(&longer.model(), &model.model());
  EXPECT_EQ(&longer.tokenizer(), &model.tokenizer());
  EXPECT_LT(model.generate("KING").size(), longer.generate("KING").size());
}

TEST(LoadedModel, ReadsTexts) {
  const std::vector<Label> labels = load("reviews").classify("A moving story, told with great care.");
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[0].name, "positive");
  EXPECT_GT(labels[0].score, 0.9);
  EXPECT_NEAR(labels[0].score + labels[1].score, 1.0, 1e-6);
  const FilledText filled = load("reviews-mlm").fill("This film was a complete [MASK] of time.", 2);
  ASSERT_EQ(filled.size(), 1u);
  ASSERT_EQ(filled[0].size(), 2u);
  EXPECT_EQ(filled[0][0].token, "waste");

  const LoadedModel tagger = load(fixture("encoders/bert-tag"));
  EXPECT_EQ(tagger.tasks().front(), Task::tag);
  const std::vector<std::string> texts{"Ada lived in London."};
  EXPECT_EQ(tagger.tag(texts[0]).size(), tag(tagger.encoder(), tagger.tokenizer(), texts).front().size());
  const LoadedModel reader = load(fixture("encoders/bert-qa"));
  const std::vector<Question> questions{{"Who came?", "The cat came with the dog."}};
  const Answer expected = answer(reader.encoder(), reader.tokenizer(), questions).front().front();
  EXPECT_EQ(reader.answer("Who came?", "The cat came with the dog.").text, expected.text);
}

TEST(LoadedModel, LabelsImageFiles) {
  const LoadedModel model = load(fixture("vit"));
  EXPECT_THAT(model.tasks(), ElementsAre(Task::classify_images, Task::embed_images));
  const std::vector<Label> labels = model.classify_image(fixture("image/pictures/photo.jpg"), 2);
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[0].name, "LABEL_3");
  EXPECT_NEAR(labels[0].score, 0.81338501, 2e-6);
  EXPECT_ERROR(model.classify("a text"),
               "a vit image model cannot classify texts (it can classify images, embed images)");
  EXPECT_ERROR(model.classify_image("none.png"), "none.png: not found");
}

// The text of transformers 5.24 (vit-gpt2/captions.json).
TEST(LoadedModel, CaptionsImageFiles) {
  LoadedModel model = load(fixture("vit-gpt2"));
  EXPECT_THAT(model.tasks(), ElementsAre(Task::caption));
  EXPECT_EQ(model.kind(), "a vision-encoder-decoder image model");
  const std::string drawing = fixture("image/pictures/alpha.png");
  model.generation().max_new_tokens = 4;
  EXPECT_EQ(model.caption(drawing), "she�n6");
  model.generation().num_beams = 3;
  CaptionOptions options;
  options.generation = model.generation();
  options.generation.num_return_sequences = 2;
  const std::vector<std::string> files{drawing, drawing};
  const auto captions = model.caption(files, options);
  ASSERT_EQ(captions.size(), 2u);
  ASSERT_EQ(captions[0].size(), 2u);
  EXPECT_EQ(captions[0][0].text, model.caption(drawing));
  EXPECT_EQ(captions[0][1].hypothesis.ids, captions[1][1].hypothesis.ids);
  EXPECT_ERROR(model.caption("none.png"), "none.png: not found");
  EXPECT_ERROR(model.translate("a text"),
               "a vision-encoder-decoder image model cannot translate (it can caption images)");
  EXPECT_ERROR(model.classify_image(drawing), "cannot classify images (it can caption images)");
}

// Scores and cosines of transformers 5.24.
TEST(LoadedModel, ComparesImagesWithTexts) {
  const TemporaryFolder folder;
  std::filesystem::copy(fixture("siglip"), folder, std::filesystem::copy_options::recursive);
  write_file(folder / "preprocessor_config.json",
             R"({"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32},
                 "resample": 3})");
  const LoadedModel model = load(folder.path().string());
  EXPECT_EQ(model.kind(), "a siglip dual encoder");
  EXPECT_THAT(model.tasks(), ElementsAre(Task::classify_images, Task::embed, Task::embed_images));
  const std::string photo = fixture("image/pictures/photo.jpg");
  const std::vector<std::string> labels{"a photo of a cat", "dogs"};
  const std::vector<Label> found = model.classify_image(photo, labels);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "dogs");
  EXPECT_NEAR(found[0].score, 0.1648189, 2e-6);
  const Tensor cosines =
      similarity(model.embed_images(std::span(&photo, 1)), model.embed(labels), similarity_named("cosine"));
  EXPECT_NEAR(cosines.to_vector<float>()[0], -0.35294956, 1e-5);
  EXPECT_NEAR(cosines.to_vector<float>()[1], -0.09418291, 1e-5);
  EXPECT_ERROR(model.classify_image(photo), "expected labels, among which a siglip dual encoder chooses");
  EXPECT_ERROR(model.classify_image(photo, std::vector<std::string>()), "at least one label");
  EXPECT_ERROR(load(fixture("vit")).classify_image(photo, labels),
               "a model of texts and images, got a vit image model");
}

TEST(LoadedModel, EmbedsWithAndWithoutTheHead) {
  const LoadedModel whole = load("reviews"), body = load("reviews", {.head = false});
  EXPECT_EQ(whole.tasks().front(), Task::classify);
  EXPECT_THAT(body.tasks(), ElementsAre(Task::embed, Task::attention));
  const Tensor vectors = whole.embed({"A good film.", "A bad film."});
  EXPECT_EQ(vectors.size(0), 2);
  EXPECT_EQ(numbers(vectors), numbers(body.embed({"A good film.", "A bad film."})));
}

TEST(LoadedModel, RecordsNoGradients) {
  const LoadedModel model = load("reviews");
  EXPECT_FALSE(model.embed({"A good film."}).requires_grad());
  Taps none;
  EXPECT_FALSE(model.forward("A good film.", none).at("logits").requires_grad());
}

TEST(LoadedModel, ShowsTheAttentionOfChosenHeads) {
  const LoadedModel model = load("en-fr");
  const AttentionChoice all{.kind = "cross", .target = "J'aime le thé."};
  const TextAttention whole = model.attention("I like tea.", all);
  ASSERT_EQ(whole.layers.size(), 2u);
  EXPECT_EQ(whole.queries.back(), "</s>");
  EXPECT_EQ(whole.keys.front(), "▁I");
  const std::int64_t queries = std::ssize(whole.queries), keys = std::ssize(whole.keys);
  AttentionChoice choice = all;
  choice.layers = {1};
  choice.heads = {2, 5};
  const TextAttention some = model.attention("I like tea.", choice);
  ASSERT_EQ(some.layers.size(), 1u);
  EXPECT_EQ(some.layers[0].name, "decoder.layers.1.cross_attn");
  const Tensor weights = some.layers[0].weights;
  ASSERT_EQ(weights.shape(), (Shape{2, queries, keys}));
  EXPECT_EQ(numbers(slice(weights, 0, 0, 1)), numbers(slice(whole.layers[1].weights, 0, 2, 3)));
  EXPECT_EQ(numbers(slice(weights, 0, 1, 2)), numbers(slice(whole.layers[1].weights, 0, 5, 6)));

  choice.layers = {7};
  EXPECT_ERROR(model.attention("I like tea.", choice), "layer 7 not found");
  EXPECT_ERROR(model.attention("I like tea.", {.kind = "crss"}),
               "expected the kind cross or encoder or decoder, got crss");
  EXPECT_ERROR(load("reviews").attention("Good.", {.target = "Bon."}), "cannot translate");
}

TEST(LoadedModel, TapsReadAndReplaceValuesOfAText) {
  const LoadedModel model = load("reviews");
  const std::string text = "A moving story, told with great care.";
  Taps none, ablation, misspelled;
  ablation.listen("encoder.layers.0.self_attn.heads", {.heads = {1}}, replace_by_zeros());
  misspelled.listen("encoder.layer.0.self_attn.heads", replace_by_zeros());
  EXPECT_NE(numbers(model.forward(text, none).at("logits")),
            numbers(model.forward(text, ablation).at("logits")));
  EXPECT_ERROR(model.forward(text, misspelled), "no value of the model matches encoder.layer.0");
}

TEST(LoadedModel, SaysWhatAModelCanDo) {
  const LoadedModel model = load("en-fr");
  EXPECT_ERROR(model.generate("Once"), EndsWith("en-fr: a marian encoder-decoder cannot continue text "
                                                "(it can translate, embed texts, show attention)"));
  EXPECT_ERROR(model.encoder(), EndsWith("expected an encoder, got a marian encoder-decoder"));
  const LoadedModel image = load(fixture("vit-model"));
  EXPECT_THAT(image.tasks(), ElementsAre(Task::embed_images));
  EXPECT_ERROR(image.embed({"text"}), "cannot embed texts (it can embed images)");
  EXPECT_ERROR(load(fixture("whisper")).embed({"text"}), "cannot embed texts (it can transcribe sound)");
  const LoadedModel sound = load(fixture("audio-spectrogram"));
  EXPECT_ERROR(sound.embed({"text"}), "cannot embed texts (it can classify sounds)");
  EXPECT_EQ(sound.classify_sound(fixture("speech") + "/tones.flac", 1).front().name, "LABEL_2");
  EXPECT_ERROR(load(fixture("audio-spectrogram-model")).embed({"text"}),
               "(it takes tensors: see Model::forward)");
  EXPECT_ERROR(load(fixture("vit")).caption("photo.jpg"),
               "a vit image model cannot caption images (it can classify images, embed images)");
  EXPECT_ERROR(load("en-fx"), "did you mean en-fr?");
  EXPECT_ERROR(load("en-fr", {.adapters = {{"en-fr"}}}), "expected an adapter");
}

TEST(LoadedModel, TranscribesWithModelsOfSamples) {
  const std::string tones = fixture("speech") + "/tones.flac";
  const LoadedModel ctc = load(fixture("ctc")), moonshine = load(fixture("moonshine-speech"));
  EXPECT_THAT(ctc.tasks(), ElementsAre(Task::transcribe));
  EXPECT_THAT(ctc.transcribe(tones).text, testing::StartsWith("OSAshOS O XSR"));
  EXPECT_EQ(moonshine.transcribe(tones, {.max_new_tokens = 3}).text, "oak");
  EXPECT_ERROR(ctc.transcribe(tones, {.language = "fr"}), "language: expected none for a wav2vec2 model");
}

TEST(LoadedModel, AnswersConversations) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  fs::copy(load("shakespeare").directory(), folder.path(),
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const std::string path = folder.path().string();
  EXPECT_ERROR(load(path).chat({{"user", "Speak."}}),
               "expected a model for chats, got one without a chat template");
  spill(folder / "chat_template.jinja",
        "{% for m in messages %}{{ m.role | upper }}:\n{{ m.content }}\n\n{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT:\n{% endif %}");
  LoadedModel model = load(path);
  model.generation().max_new_tokens = 30;
  std::string streamed;
  const auto on_text = [&](const std::string& part) { return streamed += part, true; };
  const std::string answer = model.chat({{"system", "Be."}, {"user", "Speak."}}, {.on_text = on_text});
  EXPECT_EQ(answer, model.generate("SYSTEM:\nBe.\n\nUSER:\nSpeak.\n\nASSISTANT:\n"));
  EXPECT_EQ(answer, streamed);
  EXPECT_NE(answer, model.chat({{"user", "Speak."}}));
  const std::vector<ChatMessage> begun{{"user", "Speak."}, {"assistant", "I will"}};
  EXPECT_EQ(model.chat(begun), model.generate("USER:\nSpeak.\n\nASSISTANT:\nI will"));
  EXPECT_ERROR(model.chat(std::vector<ChatMessage>{}), "chat: messages: expected at least one message");
  EXPECT_ERROR(load("en-fr").chat({{"user", "Speak."}}), "cannot continue text");
}

TEST(LoadedModel, TakesAdapters) {
  const std::string base = fixture("decoders/gpt2"), adapter = fixture("adapters/gpt2");
  const LoadedModel plain = load(base), adapted = load(base, {.adapters = {{adapter}}}),
                    without = load(base, {.adapters = {{adapter, 0.0}}});
  const TensorMap inputs{{"input_ids", Tensor::from(std::vector<std::int64_t>{5, 9, 20}, {1, 3})}};
  const NoGradients guard;
  const auto logits = [&](const LoadedModel& model) {
    return numbers(model.model().forward(inputs).at("logits"));
  };
  EXPECT_EQ(logits(plain), logits(without));
  EXPECT_NE(logits(plain), logits(adapted));
}

TEST(LoadedModel, ChoosesLanguages) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors", "generation_config.json"})
    fs::copy_file(fixture("m2m100/") + name, folder / name);
  fs::copy_file(fixture("tokenizers/languages/nllb.json"), folder / "tokenizer.json");
  spill(folder / "tokenizer_config.json", R"({"tokenizer_class": "NllbTokenizer"})");
  LoadedModel model = load(folder.path().string());
  const LoadedModel before = model;
  EXPECT_ERROR(model.set_languages("eng", {}), "language");
  model.set_languages("eng_Latn", "deu_Latn");
  model.set_languages("fra_Latn", {});
  const Languages& languages = *model.tokenizer().languages();
  EXPECT_EQ(languages.source.name, "fra_Latn");
  EXPECT_EQ(languages.target->name, "deu_Latn");
  EXPECT_EQ(model.generation().forced_bos_token_id, languages.target->id);
  EXPECT_NE(before.generation().forced_bos_token_id, languages.target->id);
  EXPECT_NE(before.tokenizer().languages()->source.name, "fra_Latn");
}

TEST(LoadedModel, ThreadsShareOneModel) {
  const LoadedModel model = load("en-fr");
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results)
    threads.emplace_back([&] { result = model.translate("The black cat drinks milk."); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, "Le chat noir boit du lait.");
}

}  // namespace
}  // namespace heed
