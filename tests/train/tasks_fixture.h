// Small recipes of every training task.
#pragma once

#include <string>

#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/train/train.h"
#include "run_folder.h"

namespace heed {

class TasksTest : public FolderTest {
 protected:
  static void shorten(Recipe& r, std::int64_t steps) {
    r.train.steps = steps;
    r.train.warmup = 5;
    r.train.lr = 3e-3;
    r.train.schedule = "linear";
    r.train.batch_tokens = 256;
    r.train.betas = {0.9, 0.999};
    r.train.eps = 1e-8;
    r.eval.every = steps;
    r.checkpoint.every = 4;
  }
  static void add_bert(Recipe& r) {
    r.model.settings = {{"hidden_size", "32"},
                        {"num_hidden_layers", "1"},
                        {"num_attention_heads", "2"},
                        {"intermediate_size", "64"},
                        {"max_position_embeddings", "64"},
                        {"hidden_dropout_prob", "0"},
                        {"attention_probs_dropout_prob", "0"}};
    r.tokenizer.vocab_size = 200;
  }
  Recipe causal(std::int64_t steps) const {
    Recipe r;
    r.task.kind = "causal-lm";
    r.task.context = 32;
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox jumps over the lazy dog\n";
    write_file(folder_ / "text.txt", text);
    r.data.train = folder_ / "text.txt";
    r.data.dev_share = 0.2;
    r.tokenizer.type = "character";
    r.model.settings = {{"n_embd", "32"}, {"n_layer", "1"}, {"n_head", "2"}, {"n_positions", "32"}};
    shorten(r, steps);
    return r;
  }
  Recipe masked(std::int64_t steps) const {
    Recipe r;
    r.task.kind = "masked-lm";
    r.task.context = 16;
    r.task.whole_words = true;
    std::string text;
    for (int i = 0; i < 40; ++i) text += "one two three four five six\n\n";
    write_file(folder_ / "text.txt", text);
    r.data.train = r.data.dev = folder_ / "text.txt";
    r.data.documents = "paragraph";
    add_bert(r);
    shorten(r, steps);
    return r;
  }
  Recipe classification(std::int64_t steps) const {
    Recipe r;
    r.task.kind = "classification";
    r.data.format = "labelled";
    std::string text;
    for (const char* thing : {"film", "book", "song", "play", "game", "show", "meal", "trip"}) {
      text += std::string("good a fine ") + thing + "\nbad a poor " + thing + "\n";
    }
    write_file(folder_ / "labeled.txt", text);
    r.data.train = r.data.dev = folder_ / "labeled.txt";
    add_bert(r);
    shorten(r, steps);
    r.eval.metric = "accuracy";
    return r;
  }
  /// Images of 12 x 10 pixels, each mostly of the color that its label names.
  Recipe images(std::int64_t steps) const {
    Recipe r;
    r.task.kind = "image-classification";
    for (int i = 0; i < 24; ++i) {
      std::string pixels = "P6 12 10 255\n";
      for (int p = 0; p < 120; ++p) {
        for (int c = 0; c < 3; ++c)
          pixels += static_cast<char>((c == i % 3 ? 180 : 20) + (7 * p + 13 * i + c) % 60);
      }
      const std::filesystem::path label = folder_ / "images" /
                                          (i % 3 == 0   ? "red"
                                           : i % 3 == 1 ? "green"
                                                        : "blue");
      std::filesystem::create_directories(label);
      write_file(label / (std::to_string(i) + ".ppm"), pixels);
    }
    r.data.train = r.data.dev = folder_ / "images";
    r.model.settings = {{"image_size", "8"},          {"patch_size", "4"},
                        {"hidden_size", "16"},        {"num_hidden_layers", "1"},
                        {"num_attention_heads", "2"}, {"intermediate_size", "32"}};
    shorten(r, steps);
    r.train.batch_tokens = 40;  // 8 images of 4 patches and a class token
    r.eval.metric = "accuracy";
    return r;
  }
  /// With every kind of random change.
  Recipe changed_images(std::int64_t steps) const {
    Recipe r = images(steps);
    r.augment = {.crop_scale = 0.5, .crop_padding = 1, .flip = 0.5, .jitter = 0.2, .mixup = 0.4};
    r.train.label_smoothing = 0.1;
    return r;
  }
  Recipe several_labels(std::int64_t steps) const {
    Recipe r = classification(steps);
    r.task.problem = "multi-label";
    write_file(folder_ / "labels.txt", "a one\na,b one two\nb two\na,b two one\nc three\nb,c three two\n");
    r.data.train = r.data.dev = folder_ / "labels.txt";
    r.eval.metric = "f1";
    return r;
  }
  Recipe regression(std::int64_t steps) const {
    Recipe r = classification(steps);
    r.task.problem = "regression";
    write_file(folder_ / "values.txt", "0.5 one\n1 two\n-1 three\n2.5 four\n-0.25 five\n");
    r.data.train = r.data.dev = folder_ / "values.txt";
    r.eval.metric = "pearson";
    return r;
  }
  Recipe tagging(std::int64_t steps) const {
    Recipe r;
    r.task.kind = "tagging";
    std::string text;
    for (const char* name : {"Ann", "Bob", "Eve", "Joe"}) {
      for (const char* place : {"Rome", "Oslo", "Bonn"}) {
        text += std::string("en:") + name + "\tB-PER\nen:Lee\tI-PER\nen:lives\tO\nen:in\tO\nen:" + place +
                "\tB-LOC\n\n";
      }
    }
    write_file(folder_ / "words.conll", text);
    r.data.train = r.data.dev = folder_ / "words.conll";
    r.data.word_prefix = "en:";
    add_bert(r);
    shorten(r, steps);
    r.eval.metric = "f1";
    return r;
  }
  Recipe answers(std::int64_t steps) const {
    Recipe r;
    r.task.kind = "answers";
    std::string questions;
    int number = 0;
    for (const char* name : {"Ann", "Bob", "Eve", "Joe"}) {
      const std::string context = std::string("The red house belongs to ") + name + " since May .";
      questions += std::string(number++ > 0 ? "," : "") + R"({"context": ")" + context +
                   R"(", "qas": [{"id": "1", "question": "Who owns the house ?", "answers": [{"text": ")" +
                   name + R"(", "answer_start": 25}]}]})";
    }
    write_file(folder_ / "squad.json",
               R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [)" + questions + "]}]}");
    r.data.train = r.data.dev = folder_ / "squad.json";
    r.task.stride = 4;
    add_bert(r);
    shorten(r, steps);
    r.eval.metric = "exact";
    return r;
  }
};

}  // namespace heed
