// Messages for errors that are not heed's own.
#include "cli/terminal/exit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "command.h"
#include "heed/error.h"

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

TEST(Failures, ABugOfHeedHasAStatusOfItsOwn) {
  const InternalError bug("internal error: no such head (head < heads) at attention.cpp:7");
  EXPECT_EQ(cli::failure(bug), std::string(bug.what()) + " (a bug of heed: please report it)");
  EXPECT_EQ(cli::exit_status(bug), 70);
  EXPECT_EQ(cli::exit_status(Error("matmul: expected other shapes")), 1);
}

TEST(Failures, AFullStdoutIsNamed) {
  const Result result =
      run({"tokenize", "--model", HEED_FIXTURES "/tokenizers/words/tokenizer.json", "one"}, "", "/dev/full");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("stdout: cannot write the results (No space left on device)"));
}

}  // namespace
}  // namespace heed::cli_test
