// Every training task on tiny data: it learns, a stopped and resumed run equals an unbroken one, what it
// saves works in the commands' functions, and wrong data are refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/text_corpus.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/generate/complete.h"
#include "heed/models/registry.h"
#include "heed/tasks/answer.h"
#include "heed/tasks/classify.h"
#include "heed/tasks/fill.h"
#include "heed/train/checkpoint.h"
#include "heed/train/train.h"
#include "tasks_fixture.h"
#include "train/tasks/model_source.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(TasksTest, CausalLmLearnsATextByHeart) {
  const TrainResult result = train(causal(300), {.output = folder_ / "run"});
  EXPECT_LT(result.evaluation->loss, 0.4);  // from ln(29) = 3.4; the first letters of a row are open
  const auto model = load_as<DecoderModel>(folder_ / "run");
  const auto tokenizer = load_tokenizer(folder_ / "run");
  EXPECT_EQ(tokenizer->vocab_size(), 29);  // 26 letters, the space, the line end and <unk>
  GenerationOptions options;
  options.max_new_tokens = 12;
  const std::vector<std::vector<std::int64_t>> prompts{tokenizer->encode("the quick ").ids};
  EXPECT_THAT(complete(*model, *tokenizer, prompts, {.generation = options}).at(0).at(0).text,
              HasSubstr("brown fox"));
}

TEST_F(TasksTest, MaskedLmFillsWhatItHasSeen) {
  const TrainResult result = train(masked(120), {.output = folder_ / "run"});
  EXPECT_GT(result.evaluation->metric("accuracy").value(), 90.0);
  const auto model = load_as<EncoderModel>(folder_ / "run");
  EXPECT_EQ(model->head(), EncoderHead::masked_lm);
  const auto tokenizer = load_tokenizer(folder_ / "run");
  EXPECT_EQ(fill_masks(*model, *tokenizer, std::vector<std::string>{"one two three [MASK] five six"}, 1)
                .at(0)
                .at(0)
                .at(0)
                .token,
            "four");
}

TEST_F(TasksTest, ClassificationLearnsFromScratchAndFromAMaskedLm) {
  std::string unit;
  const TrainResult result =
      train(classification(60),
            {.output = folder_ / "run", .on_progress = [&](const ProgressEvent& e) { unit = e.unit; }});
  EXPECT_EQ(unit, "texts");
  EXPECT_THAT(
      log_lines(folder_ / "run").at(0),
      AllOf(HasSubstr("\"texts\": 16"), HasSubstr("\"texts_per_second\": "), Not(HasSubstr("tokens"))));
  EXPECT_EQ(result.evaluation->metric("accuracy").value(), 100.0);
  const auto model = load_as<EncoderModel>(folder_ / "run");
  EXPECT_EQ(model->labels(), (std::vector<std::string>{"bad", "good"}));
  const std::vector<TextPair> texts{{"a fine film"}, {"a poor film"}};
  const auto labels = classify(*model, *load_tokenizer(folder_ / "run"), texts, 1);
  EXPECT_EQ(labels.at(0).at(0).index, 1u);
  EXPECT_EQ(labels.at(1).at(0).index, 0u);

  train(masked(8), {.output = folder_ / "pretrained"});
  Recipe tuned = classification(60);
  tuned.model.settings.clear();
  EXPECT_EQ(train(tuned, {.output = folder_ / "tuned", .init = folder_ / "pretrained"})
                .evaluation->metric("accuracy")
                .value(),
            100.0);
  // The same labels again: the head is kept.
  tuned.train.lr = 0;
  tuned.train.weight_decay = 0;
  EXPECT_EQ(train(tuned, {.output = folder_ / "again", .init = folder_ / "tuned"})
                .evaluation->metric("accuracy")
                .value(),
            100.0);
}

TEST_F(TasksTest, TokenDropoutHidesTokensOfTheTrainingAlone) {
  const auto loss_after = [&](double share, double lr) {
    Recipe r = classification(4);
    r.task.token_dropout = share;
    r.train.lr = lr;
    std::filesystem::remove_all(folder_ / "run");
    return train(r, {.output = folder_ / "run"}).evaluation->loss;
  };
  EXPECT_EQ(loss_after(0.5, 0), loss_after(0, 0));
  EXPECT_NE(loss_after(0.5, 0.01), loss_after(0, 0.01));
}

TEST_F(TasksTest, ClassificationOfSeveralLabelsAndRegression) {
  const TrainResult several = train(several_labels(600), {.output = folder_ / "several"});
  EXPECT_GT(several.evaluation->metric("f1").value(), 95.0);
  EXPECT_EQ(load_as<EncoderModel>(folder_ / "several")->problem(), LabelProblem::multi_label);

  const TrainResult values = train(regression(600), {.output = folder_ / "values"});
  EXPECT_GT(values.evaluation->metric("pearson").value(), 95.0);
}

TEST_F(TasksTest, TaggingFindsEntities) {
  const TrainResult result = train(tagging(60), {.output = folder_ / "run"});
  EXPECT_THAT(log_lines(folder_ / "run").at(0), HasSubstr("\"words\": 60"));
  EXPECT_EQ(result.evaluation->metric("f1").value(), 100.0);
  EXPECT_EQ(load_as<EncoderModel>(folder_ / "run")->labels(),
            (std::vector<std::string>{"O", "B-LOC", "B-PER", "I-PER"}));
}

TEST_F(TasksTest, AnswersFindsSpans) {
  const TrainResult result = train(answers(150), {.output = folder_ / "run"});
  EXPECT_THAT(log_lines(folder_ / "run").at(0), HasSubstr("\"windows\": 4"));
  EXPECT_EQ(result.evaluation->metric("exact").value(), 100.0);
  EXPECT_EQ(result.evaluation->metric("f1").value(), 100.0);
}

// Every line is a document: what its first token follows in the row does not matter.
TEST_F(TasksTest, CausalLmKeepsDocumentsApart) {
  Recipe r = causal(150);
  r.train.batch_tokens = 64;
  r.data.documents = "line";
  r.model.settings["n_positions"] = "64";
  r.task.context = 64;
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 2 == 0 ? "abcdefgh\n" : "ABCDEFGH\n";
  write_file(folder_ / "text.txt", text);
  r.task.cross_documents = false;
  const TrainResult apart = train(r, {.output = folder_ / "apart"});
  // 8 letters and no end token: 7 labels a document, of a row of 64 tokens 56.
  EXPECT_THAT(log_lines(folder_ / "apart").at(0), HasSubstr("\"tokens\": 56,"));
  EXPECT_LT(apart.evaluation->loss, 0.1);  // all but the first letter follow from the letters before
  r.task.cross_documents = true;
  r.train.steps = 2;
  r.eval.every = 2;
  train(r, {.output = folder_ / "crossed"});
  EXPECT_THAT(log_lines(folder_ / "crossed").at(0), HasSubstr("\"tokens\": 64,"));

  r.task.cross_documents = false;
  r.model.family = "heed_transformer";
  r.model.settings = {{"hidden_size", "32"},
                      {"num_hidden_layers", "1"},
                      {"num_attention_heads", "2"},
                      {"attention", "\"linear\""},
                      {"architecture", "\"decoder\""}};
  train(r, {.output = folder_ / "alone"});  // which cannot keep the documents of a row apart
  EXPECT_THAT(log_lines(folder_ / "alone").at(0), HasSubstr("\"tokens\": 56,"));
}

// The question is random and cannot be learned; the answer can, so that its loss alone vanishes.
TEST_F(TasksTest, CausalLmLearnsAnswersOnly) {
  Recipe r = causal(200);
  r.data.documents = "line";
  r.task.cross_documents = false;
  std::string text;
  for (int i = 0; i < 120; ++i) text += fmt::format("{}=abcd\n", 1000 + 7919 * i % 9000);
  write_file(folder_ / "text.txt", text);
  const Recipe all = r;
  r.task.answers_after = "=";
  const TrainResult answers = train(r, {.output = folder_ / "answers"});
  // 4 labels of each document of 9 tokens: 12 to 16 in each of 8 rows of 32.
  EXPECT_THAT(log_lines(folder_ / "answers").at(0),
              ContainsRegex("\"tokens\": (9[6-9]|1[01][0-9]|12[0-8]),"));
  EXPECT_LT(answers.evaluation->loss, 0.1);
  EXPECT_GT(train(all, {.output = folder_ / "all"}).evaluation->loss, 0.5);

  r.task.answers_after = "?";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("recipe: task.answers_after: expected a text that is in the documents with "
                        "tokens behind it, got \"?\", which is in none"));

  r.task.answers_after = "=";
  write_file(folder_ / "dev.txt", std::string(40, '1') + "=abcd\n");  // beyond the 32 positions
  r.data.dev = folder_ / "dev.txt";
  r.data.dev_share = 0;
  EXPECT_THAT(refusal_of(r),
              HasSubstr("expected held-out documents with something to learn within the model's "
                        "positions, got none in one set"));
}

// Conversations whose template writes the texts of the test above are learned like these.
TEST_F(TasksTest, CausalLmLearnsTheAnswersOfConversations) {
  Recipe r = causal(10);
  r.data.documents = "line";
  r.task.cross_documents = false;
  std::string text, chats;
  for (int i = 0; i < 120; ++i) {
    const int number = 1000 + 7919 * i % 9000;
    text += fmt::format("{}=abcd\n", number);
    chats += fmt::format(
        R"({{"messages": [{{"role": "user", "content": "{}"}}, {{"role": "assistant", "content": "abcd"}}]}})"
        "\n",
        number);
  }
  write_file(folder_ / "text.txt", text);
  write_file(folder_ / "chats.jsonl", chats);
  train(r, {.output = folder_ / "model"});
  r.task.answers_after = "=";
  train(r, {.output = folder_ / "texts", .init = folder_ / "model"});
  r.task.answers_after = "";
  r.data.format = "chat";
  r.data.train = folder_ / "chats.jsonl";
  EXPECT_THAT(refusal_of(r), HasSubstr("recipe: data.format: expected a model for chats to train (--init)"));
  EXPECT_THAT(refusal_of(r, folder_ / "model"), HasSubstr("expected a model for chats, got one without"));
  write_file(
      folder_ / "model" / "chat_template.jinja",
      "{% for m in messages %}{{ m.content }}{% if m.role == 'user' %}={% else %}{{ eos_token }}{% endif %}"
      "{% endfor %}");
  train(r, {.output = folder_ / "chats", .init = folder_ / "model"});
  EXPECT_TRUE(weights(folder_ / "texts") == weights(folder_ / "chats"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "chats" / "chat_template.jinja"));

  r.data.bad_share = 0;
  write_file(folder_ / "chats.jsonl", chats + "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
  EXPECT_THAT(refusal_of(r, folder_ / "model"),
              HasSubstr("chats.jsonl:121: expected an answer of the assistant to learn, got none"));
}

TEST_F(TasksTest, GradientCheckpointingChangesNoBit) {
  Recipe r = causal(6);
  r.model.settings["resid_pdrop"] = "0.2";
  train(r, {.output = folder_ / "plain"});
  r.train.gradient_checkpointing = true;
  train(r, {.output = folder_ / "checkpointed"});
  EXPECT_TRUE(weights(folder_ / "plain") == weights(folder_ / "checkpointed"));
}

TEST_F(TasksTest, RefusesATokenizerWithIdsThatTheModelLacks) {
  train(masked(2), {.output = folder_ / "small"});
  Recipe r = masked(2);
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += "word" + std::to_string(i) + " other" + std::to_string(i * i) + "\n\n";
  write_file(folder_ / "text.txt", text);
  r.tokenizer.vocab_size = 400;
  train(r, {.output = folder_ / "large"});
  const auto overwrite = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy(folder_ / "large" / "tokenizer.json", folder_ / "small" / "tokenizer.json",
                        overwrite);
  EXPECT_THAT(refusal_of(r, folder_ / "small"),
              AllOf(HasSubstr("train: expected a tokenizer of at most "),
                    HasSubstr("as many as this bert model has, got one of ")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "log.jsonl"));
}

TEST_F(TasksTest, SaysWhichSpecialTokensTheModelHasElsewhere) {
  train(masked(1), {.output = folder_ / "model"});
  const std::filesystem::path file = folder_ / "model" / "config.json";
  std::string config = read_file(file);
  const std::string key = "\"pad_token_id\": 0";
  ASSERT_NE(config.find(key), std::string::npos);
  write_file(file, config.replace(config.find(key), key.size(), "\"pad_token_id\": 7"));
  std::string said;
  TrainOptions options{.output = folder_ / "run", .init = folder_ / "model"};
  options.on_message = [&](const std::string& message) { said += message + "\n"; };
  train(masked(1), options);
  EXPECT_THAT(said, HasSubstr("config.json: pad_token_id: expected 0, the tokenizer's, got 7 (does the "
                              "tokenizer belong to this model?)"));
}

TEST_F(TasksTest, LongDocumentsComeInPartsAndEndWhereTheyEnd) {
  Recipe r = masked(1);
  const std::string line = std::string(999, 'x') + "\n";
  std::string text;
  for (int i = 0; i < 200; ++i) text += line;
  // The first part ends at a blank line, the last one at the end of the file.
  write_file(folder_ / "text.txt", text.substr(0, 66000) + "\n\nshort\n\n" + text);
  TextReader reader(folder_ / "text.txt", r.data);
  std::vector<std::string> documents(1);
  for (TextPart part; reader.next(part);) {
    documents.back() += part.text;
    if (part.ends_document) documents.emplace_back();
  }
  ASSERT_EQ(documents.size(), 4u);
  EXPECT_EQ(documents[0], text.substr(0, 66000));
  EXPECT_EQ(documents[1], "short\n");
  EXPECT_EQ(documents[2], text);
}

TEST_F(TasksTest, FrozenParametersStay) {
  Recipe r = classification(4);
  r.checkpoint.every = 1;
  r.task.freeze = "bert.embeddings.* bert.encoder.*";
  train(r, {.output = folder_ / "run"});
  const auto values = [&](std::int64_t step, const std::string& name) {
    const auto model = load_as<EncoderModel>(checkpoint_path(folder_ / "run", step));
    for (const Parameter& p : model->parameters()) {
      if (p.name == name) return p.tensor.to_vector<float>();
    }
    return std::vector<float>();
  };
  const std::string frozen = "bert.encoder.layer.0.output.dense.weight", trained = "classifier.weight";
  EXPECT_EQ(values(3, frozen), values(4, frozen));
  EXPECT_NE(values(3, trained), values(4, trained));
  r.task.freeze = "bret.*";
  EXPECT_THAT(refusal_of(r), HasSubstr("task.freeze: expected a pattern of parameter names"));
  r.task.freeze = "*";
  EXPECT_THAT(refusal_of(r), HasSubstr("got all of them frozen"));
}

TEST_F(TasksTest, AFolderIsReadAsItsFilesInOne) {
  for (Recipe r : {classification(4), tagging(4)}) {
    SCOPED_TRACE(r.task.kind);
    const std::filesystem::path one = folder_ / (r.task.kind + "-one"),
                                two = folder_ / (r.task.kind + "-two");
    train(r, {.output = one});
    const std::string text = read_file(r.data.train);
    const std::size_t half = text.size() / 2;
    const std::size_t cut =
        r.task.kind == "tagging" ? text.find("\n\n", half) + 2 : text.find('\n', half) + 1;
    r.data.train = r.data.dev = folder_ / "files";
    std::filesystem::create_directories(r.data.train);
    write_file(r.data.train / "1", text.substr(0, cut));
    write_file(r.data.train / "2", text.substr(cut));
    train(r, {.output = two});
    EXPECT_TRUE(weights(one) == weights(two));
  }
}

TEST_F(TasksTest, UnknownKeysOfAModelNameTheNearest) {
  const auto refused = [&](Recipe r, const std::string& key) {
    r.model.settings[key] = "2";
    return refusal_of(r);
  };
  const std::string text = ": expected only known settings, got one more";
  EXPECT_EQ(refused(causal(4), "n_layers"), "recipe: [model]: n_layers" + text + " (did you mean n_layer?)");
  EXPECT_EQ(refused(masked(4), "num_layers"),
            "recipe: [model]: num_layers" + text + " (did you mean num_hidden_layers?)");
  EXPECT_EQ(refused(masked(4), "color"), "recipe: [model]: color" + text);
  Recipe marian;
  marian.task.kind = "reverse";
  shorten(marian, 4);
  EXPECT_EQ(refused(marian, "num_heads"), "recipe: [model]: num_heads" + text + " (did you mean heads?)");
  EXPECT_EQ(refused(marian, "fmaily"), "recipe: [model]: fmaily" + text + " (did you mean family?)");
}

TEST_F(TasksTest, RefusesWhatDoesNotFit) {
  Recipe r = causal(4);
  r.task.context = 64;
  EXPECT_THAT(refusal_of(r), HasSubstr("task.context: expected at most 32, the model's positions, got 64"));
  r = causal(4);
  r.model.settings["n_hed"] = "2";
  EXPECT_THAT(refusal_of(r), HasSubstr("recipe: [model]: n_hed: expected only known settings"));
  r = causal(4);
  apply_override(r, "model.d_model=32");  // Marian's
  EXPECT_THAT(refusal_of(r), HasSubstr("recipe: [model]: d_model: expected only known settings"));
  r = classification(4);
  r.model.family = "distilbert";
  r.model.settings = {{"dim", "32"}, {"n_layers", "1"}, {"n_heads", "2"}, {"hidden_dim", "64"}};
  apply_override(r, "model.dropout=0.4");  // of Marian's recipe and of DistilBERT's config
  train(r, {.output = folder_ / "distilbert"});
  EXPECT_THAT(read_file(folder_ / "distilbert" / "config.json"), HasSubstr("\"dropout\": 0.4"));
  // A family's defaults are the ids of its own first tokenizer: ModernBERT's are 50281 and 50282.
  const auto tokenizer = load_tokenizer(folder_ / "distilbert");
  EXPECT_THAT(read_file(folder_ / "distilbert" / "config.json"),
              AllOf(HasSubstr("\"cls_token_id\": " + std::to_string(tokenizer->cls_id().value())),
                    HasSubstr("\"sep_token_id\": " + std::to_string(tokenizer->sep_id().value()))));
  r = causal(4);
  write_file(folder_ / "text.txt", "short");
  EXPECT_THAT(refusal_of(r), HasSubstr("expected at least 64 tokens"));
  write_file(folder_ / "text.txt", "\xff\n");
  EXPECT_THAT(refusal_of(r), HasSubstr("text.txt:1: expected UTF-8"));
  r = causal(4);
  r.data.format = "squad";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("data.format: expected text, jsonl or chat for the task causal-lm, got squad"));
  r = classification(4);
  r.eval.metric = "bleu";
  EXPECT_THAT(refusal_of(r), HasSubstr("eval.metric: expected one of loss, accuracy, f1, got bleu"));
  r = classification(4);
  write_file(folder_ / "dev.txt", "good a film\nawful a film\n");
  r.data.dev = folder_ / "dev.txt";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("dev.txt:2: expected one of the labels of training (bad, good), got \"awful\""));
  r = tagging(4);
  write_file(folder_ / "dev.conll", "Ann B-PER\n\nruns O\nhome B-ORG\n");
  r.data.dev = folder_ / "dev.conll";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("dev.conll:4: expected one of the tags of the training data (O, B-LOC, "
                        "B-PER, I-PER), got \"B-ORG\""));
  r = tagging(4);
  write_file(folder_ / "words.conll", "lonely\n");
  EXPECT_THAT(refusal_of(r), HasSubstr("words.conll:1: expected a word and its tag"));
  r = answers(4);
  write_file(folder_ / "squad.json", "{\"data\": [{}]}");
  EXPECT_THAT(refusal_of(r), HasSubstr("squad.json: data.0.paragraphs: not found"));
  r = answers(4);
  const std::string right = read_file(r.data.train), start = "\"answer_start\": 25";
  std::string wrong = right;
  r.data.dev = folder_ / "dev.json";
  write_file(r.data.dev, wrong.replace(wrong.rfind(start), start.size(), "\"answer_start\": 24"));
  EXPECT_THAT(refusal_of(r), AllOf(HasSubstr("dev.json: data.0.paragraphs."),
                                   HasSubstr("answer_start: expected the character of the context at which "
                                             "\"Joe\" begins, got 24")));
  r = tagging(4);
  write_file(folder_ / "words.conll", "a B\nb O\n\nc word O\n");
  EXPECT_THAT(refusal_of(r), HasSubstr("words.conll:4: expected 2 columns, as in the lines before, got 3"));
  write_file(folder_ / "words.conll", "the quick fox\nthe lazy fox\n");
  EXPECT_THAT(refusal_of(r),
              HasSubstr("words.conll: expected at least two different tags, got only \"fox\""));
  r = classification(4);
  write_file(folder_ / "labeled.txt", "the quick fox\nthe lazy fox\n");
  EXPECT_THAT(refusal_of(r),
              HasSubstr("labeled.txt: expected at least two different labels, got only \"the\""));
  train(causal(4), {.output = folder_ / "decoder"});
  EXPECT_THAT(refusal_of(classification(4), folder_ / "decoder"),
              HasSubstr("expected a family of encoders with heads, got gpt2"));
}

// Data must have the same fingerprint wherever a run goes on: on some processors char is unsigned.
TEST(Fingerprint, OfBytesAboveAsciiIsOfSignedNumbers) {
  Fingerprint hash;
  hash.add(std::string_view("n\u00e9"));
  EXPECT_EQ(hash.text(), "21feb719261a7eed");
}

}  // namespace
}  // namespace heed
