// The environment, under the names and rules of Python's huggingface_hub.
#include "hub/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "heed/io/hub_cache.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed::hub {
namespace {

using testing::HasSubstr;

struct SettingsTest : testing::Test {
  TemporaryFolder folder;
  void SetUp() override {
    for (const char* name :
         {"HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME", "HF_HUB_CACHE",
          "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
          "HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_DISABLE_IMPLICIT_TOKEN"})
      ::unsetenv(name);
    set("HOME", folder.path());
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  static Settings now() { return Settings::from_environment(); }
};

TEST_F(SettingsTest, TheCacheIsWherePythonLooksForIt) {
  EXPECT_EQ(hub_cache(), folder / ".cache/huggingface/hub");
  set("XDG_CACHE_HOME", "/xdg");
  EXPECT_EQ(hub_cache(), "/xdg/huggingface/hub");
  set("HF_HOME", "~/hf");
  EXPECT_EQ(hub_cache(), folder / "hf/hub");
  set("HUGGINGFACE_HUB_CACHE", "/legacy");
  EXPECT_EQ(hub_cache(), "/legacy");
  set("HEED_TEST_DISK", "/disk");
  set("HF_HUB_CACHE", "${HEED_TEST_DISK}/$HEED_TEST_DISK/$HEED_TEST_NONE");
  EXPECT_EQ(now().cache, "/disk//disk/$HEED_TEST_NONE");
}

TEST_F(SettingsTest, TheTokenIsOfTheEnvironmentOrOfAFile) {
  EXPECT_EQ(now().token, "");
  std::filesystem::create_directories(folder / ".cache/huggingface");
  spill(folder / ".cache/huggingface/token", "hf_file\n");
  EXPECT_EQ(now().token, "hf_file");
  spill(folder / "other", "hf_other");
  set("HF_TOKEN_PATH", folder / "other");
  EXPECT_EQ(now().token, "hf_other");
  set("HF_TOKEN", " hf_variable\n");
  EXPECT_EQ(now().token, "hf_variable");
  set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_EQ(now().token, "");
  ::unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
  set("HF_TOKEN", "hf_a\r\nX-Other: header");
  EXPECT_ERROR(now(), AllOf(HasSubstr("HF_TOKEN: expected a token"), testing::Not(HasSubstr("hf_a"))));
}

TEST_F(SettingsTest, EndpointsAreWebAddresses) {
  EXPECT_EQ(now().endpoint, "https://huggingface.co");
  set("HF_ENDPOINT", "http://127.0.0.1:8080/mirror/");
  EXPECT_EQ(now().endpoint, "http://127.0.0.1:8080/mirror");
  for (const char* bad :
       {"huggingface.co", "ftp://x", "file:///etc", "https://user@host", "https://a b", "https:"}) {
    set("HF_ENDPOINT", bad);
    EXPECT_ERROR(now(), "HF_ENDPOINT: expected a URL") << bad;
  }
}

TEST_F(SettingsTest, OfflineAndTimeouts) {
  EXPECT_FALSE(now().offline);
  set("TRANSFORMERS_OFFLINE", "yes");
  EXPECT_TRUE(now().offline);
  set("HF_HUB_OFFLINE", "0");
  EXPECT_FALSE(now().offline);
  set("HF_HUB_DOWNLOAD_TIMEOUT", "33");
  EXPECT_EQ(now().download_seconds, 33);
  set("HF_HUB_ETAG_TIMEOUT", "soon");
  EXPECT_ERROR(now(), "HF_HUB_ETAG_TIMEOUT: expected a number of seconds");
}

}  // namespace
}  // namespace heed::hub
