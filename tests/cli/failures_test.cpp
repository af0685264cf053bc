// Messages for errors that are not heed's own.
#include "cli/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Failures, NameWhatFailed) {
  const auto code = [](std::errc value) { return std::make_error_code(value); };
  EXPECT_THAT(cli::failure(std::system_error(code(std::errc::resource_unavailable_try_again))),
              StartsWith("threads: cannot start another"));
  EXPECT_THAT(cli::failure(std::system_error(code(std::errc::io_error), "reading x")),
              StartsWith("system: reading x"));
  EXPECT_THAT(
      cli::failure(std::filesystem::filesystem_error("copy", "/a/b", code(std::errc::permission_denied))),
      StartsWith("/a/b: cannot be used (Permission denied)"));
  EXPECT_THAT(cli::failure(std::bad_alloc()), StartsWith("memory: not enough"));
}

TEST(Failures, AFullStdoutIsNamed) {
  const Result result =
      run({"tokenize", "--model", HEED_FIXTURES "/tokenizers/words/tokenizer.json", "one"}, "", "/dev/full");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("stdout: cannot write the results (No space left on device)"));
}

}  // namespace
}  // namespace heed::cli_test
