// Messages for errors that are not heed's own.
#include "cli/terminal/exit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

TEST(Failures, AMappedFileThatIsCutIsNamed) {
  const Folder folder;
  const std::string path = folder / "model.safetensors";
  spill(path, std::string(10000, 'x'));
  const auto read_after_cut = [&] {
    cli::report_cut_files();
    std::FILE* file = std::fopen(path.c_str(), "r+");
    const void* mapped = ::mmap(nullptr, 10000, PROT_READ, MAP_PRIVATE, ::fileno(file), 0);
    if (::ftruncate(::fileno(file), 0) != 0) std::_Exit(3);
    std::_Exit(static_cast<const volatile char*>(mapped)[9000]);
  };
  EXPECT_EXIT(read_after_cut(), testing::ExitedWithCode(1),
              "^heed: error: " + path + ": expected a file that keeps its length");
}

TEST(Failures, AFullStdoutIsNamed) {
  const Result result =
      run({"tokenize", "--model", HEED_FIXTURES "/tokenizers/words/tokenizer.json", "one"}, "", "/dev/full");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("stdout: cannot write the results (No space left on device)"));
}

}  // namespace
}  // namespace heed::cli_test
