// Maps of the words of a recording, along its time.
#include "plot/figure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/plot/picture.h"
#include "plot/labels.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Four columns of half a second from 1 s on, and a key of padding; "two" has two tokens.
AttentionPicture recording() {
  AttentionPicture picture;
  picture.title = "talk.wav";
  picture.image = {4, 2, {}, 1, 4, 0, true};
  for (const int level : {250, 250, 250, 0, 250, 0, 250, 250})
    picture.image.rgb.insert(picture.image.rgb.end(), 3, static_cast<std::uint8_t>(level));
  picture.sound = {1, 2, {{" one", 1, 2, {0, 1}}, {" two", 2.5, 3, {1, 3}}}};
  picture.tokens["cross"] = {{" one", " tw", "o"}, {"1.00 s", "1.50 s", "2.00 s", "2.50 s", "3.00 s"}};
  picture.tokens["encoder"] = {std::vector<std::string>(5, "t"), std::vector<std::string>(5, "t")};
  picture.maps.push_back({"decoder.layers.0.cross_attn",
                          "cross",
                          0,
                          1,
                          3,
                          5,
                          {0.5f, 0.25f, 0, 0, 0.25f, 0, 0, 0.25f, 0.25f, 0.5f, 0, 0, 0, 1, 0}});
  AttentionMap own{"encoder.layers.0.self_attn", "encoder", 0, 0, 5, 5, std::vector<float>(25, 0.0f)};
  for (std::size_t i = 0; i < 25; ++i) own.weights[i] = static_cast<float>(i);
  picture.maps.push_back(own);
  return picture;
}

TEST(AlongTime, AWordHasTheMeanOfItsTokensWithoutPadding) {
  const AttentionPicture along = along_time(recording());
  ASSERT_EQ(along.maps.size(), 1u);
  EXPECT_EQ(along.maps[0].queries, 2);
  EXPECT_EQ(along.maps[0].keys, 4);
  EXPECT_THAT(along.maps[0].weights,
              Pointwise(FloatEq(), std::vector<float>{0.5f, 0.25f, 0, 0, 0, 0, 0.125f, 0.625f}));
  EXPECT_THAT(along.tokens.at("cross").queries, ElementsAre("one", "two"));
  EXPECT_EQ(along.tokens.at("cross").keys.size(), 4u);
}

TEST(AlongTime, WithoutWordsOrMapsItSaysSo) {
  AttentionPicture silent = recording();
  silent.sound.words.clear();
  EXPECT_ERROR(along_time(silent), "expected the words of a recording, got none");
  AttentionPicture encoder = recording();
  encoder.maps.erase(encoder.maps.begin());
  EXPECT_ERROR(along_time(encoder), "expected maps of cross-attention to a recording, got none");
  AttentionPicture beyond = recording();
  beyond.sound.words[1].queries = {2, 4};
  EXPECT_ERROR(along_time(beyond), "expected queries of words below 3, got 2 to 4");
}

TEST(AlongTime, FramesOfTheEncoderAreLaidOverTheSpectrogramWithoutPadding) {
  const AttentionPicture over = over_image(recording(), std::nullopt);
  ASSERT_EQ(over.maps.size(), 1u);                                          // words are not laid over it
  EXPECT_THAT(over.maps[0].weights, ElementsAre(7.5f, 8.5f, 9.5f, 10.5f));  // of four queries
  EXPECT_THAT(over_image(recording(), 2).maps[0].weights, ElementsAre(10, 11, 12, 13));
}

TEST(AlongTime, LowFrequenciesAreAtTheBottom) {
  AttentionPicture patches = recording();
  patches.image.rows = patches.image.columns = 2;
  const AttentionPicture over = over_image(patches, 0);
  EXPECT_THAT(over.maps[0].weights, ElementsAre(2, 3, 0, 1));
}

TEST(AlongTime, ColumnsKeepTheLargestWeight) {
  AttentionMap map{"", "cross", 0, 0, 2, 5, {0, 1, 2, 3, 4, 0, -5, 1, 0.5f, 0.25f}};
  EXPECT_THAT(plot::in_columns(map, 0, 2), ElementsAre(1, 4));
  EXPECT_THAT(plot::in_columns(map, 1, 2), ElementsAre(-5, 1));
  EXPECT_THAT(plot::in_columns(map, 1, 10), ElementsAre(0, 0, -5, -5, 1, 1, 0.5f, 0.5f, 0.25f, 0.25f));
  map.weights[3] = std::nanf("");
  EXPECT_TRUE(std::isnan(plot::in_columns(map, 0, 2)[1]));
}

TEST(AlongTime, TicksAreRoundNumbersWithRoomForThem) {
  const auto texts = [](const RecordedSound& sound, double width) {
    std::vector<std::string> all;
    for (const plot::TimeTick& tick : plot::time_ticks(sound, width, 6)) all.push_back(tick.text);
    return all;
  };
  EXPECT_THAT(texts({0, 30, {}}, 60), ElementsAre("0 s", "10", "20", "30"));
  EXPECT_THAT(texts({1, 2, {}}, 60), ElementsAre("1 s", "1.5", "2", "2.5", "3"));
  EXPECT_THAT(texts({60, 30, {}}, 24), ElementsAre("60 s", "80"));
  EXPECT_DOUBLE_EQ(plot::share_of_time({1, 2, {}}, 2.5), 0.75);
  EXPECT_DOUBLE_EQ(plot::share_of_time({1, 2, {}}, 9), 1);
}

TEST(AlongTime, TheTerminalHasTheSpectrogramAboveTheWords) {
  const std::string plain = attention_terminal(along_time(recording()), {.width = 40});
  EXPECT_THAT(plain, HasSubstr("\n                   @@@@@\n    "));  // loud at the end, above
  EXPECT_THAT(plain, HasSubstr("\none %%%%%=====]           1.00-2.00 s\n"));
  EXPECT_THAT(plain, HasSubstr("\ntwo           ::::[@@@@@  2.50-3.00 s\n")) << plain;
  EXPECT_THAT(plain, HasSubstr("\n              2 s\n")) << plain;
  EXPECT_THAT(plain, HasSubstr("[ ]: when the word was spoken\n"));
  const std::string colored = attention_terminal(along_time(recording()), {.width = 40, .color = true});
  EXPECT_THAT(colored, HasSubstr("\x1b[48;2;255;255;255m "));
  const std::string frames = attention_terminal(over_image(recording(), 0), {.width = 40});
  EXPECT_THAT(frames, HasSubstr("layer 0, head 0\n          ----------**********@@@@@@@@@@\n"));
}

TEST(AlongTime, FiguresBoxTheWords) {
  const AttentionPicture along = along_time(recording());
  const std::string svg = attention_svg(along);
  EXPECT_THAT(svg, HasSubstr("<title>one: 1.00 s to 2.00 s</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>two: 2.50 s to 3.00 s</title>"));
  // From 2.5 s to the end: the last quarter.
  EXPECT_THAT(svg, HasSubstr("width=\"240.0\" height=\"15.0\" fill=\"none\" stroke=\"#c2410c\""));
  EXPECT_THAT(svg, HasSubstr(">1 s</text>"));
  EXPECT_THAT(svg, HasSubstr("rows: words, boxed from their beginning to their end"));
  for (const double width : {0.0, 400.0, 1500.0})
    EXPECT_EQ(attention_png(along, {.width = width}).substr(1, 3), "PNG") << width;
  EXPECT_THAT(attention_svg(over_image(recording(), 0)), HasSubstr("low frequencies at the bottom"));
}

TEST(AlongTime, WordsWithoutTimesHaveNoBoxes) {
  AttentionPicture picture = recording();
  for (SpokenWord& word : picture.sound.words) word.timed = false;
  const AttentionPicture along = along_time(picture);
  const std::string svg = attention_svg(along), text = attention_terminal(along, {.width = 40});
  EXPECT_THAT(svg, HasSubstr("<title>one</title>"));
  EXPECT_THAT(svg, HasSubstr("rows: words; above: the spectrogram"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("#c2410c")));
  EXPECT_THAT(text, HasSubstr("rows: words, columns: time"));
  EXPECT_THAT(text, testing::Not(HasSubstr("2.00 s")));
  const nlohmann::json word = nlohmann::json::parse(attention_json(picture)).at("sound").at("words")[1];
  EXPECT_EQ(word.at("text"), " two");
  EXPECT_TRUE(word.at("start").is_null() && word.at("end").is_null());
}

TEST(AlongTime, TheMeanOfAlignmentHeadsHasItsName) {
  AttentionPicture picture = recording();
  picture.maps[0].head = AttentionMap::kAlignmentHeads;
  EXPECT_EQ(plot::head_title(picture.maps[0]), "mean of the alignment heads");
  const nlohmann::json json = nlohmann::json::parse(attention_json(picture));
  EXPECT_EQ(json.at("maps")[0].at("head"), "alignment");
  EXPECT_TRUE(json.at("maps")[0].at("layer").is_null());
  EXPECT_EQ(json.at("sound").at("words")[1],
            nlohmann::json::parse(R"({"text": " two", "start": 2.5, "end": 3.0, "queries": [1, 3]})"));
}

}  // namespace
}  // namespace heed
