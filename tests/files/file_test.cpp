#include "heed/files/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "files/input_file.h"
#include "files/mapped_files.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ReadFile, ReadsAllBytesOfFilesAndPipes) {
  const TemporaryFolder folder;
  const std::string content = std::string("a\0b\n", 4) + std::string(200000, 'x');
  spill(folder / "file", content);
  EXPECT_EQ(read_file(folder / "file"), content);
  EXPECT_EQ(read_file(folder / "file", content.size()), content);
  spill(folder / "empty", "");
  EXPECT_EQ(read_file(folder / "empty"), "");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { spill(folder / "pipe", content); });
  EXPECT_EQ(read_file(folder / "pipe"), content);
  writer.join();
}

TEST(ReadFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { read_file(folder / "none"); }),
            (folder / "none").string() + ": not found (check the path)");
  EXPECT_EQ(error_of([&] { read_file(folder.path()); }),
            folder.path().string() + ": expected a file, got a directory");
  spill(folder / "file", "12345");
  EXPECT_ERROR(read_file(folder / "file", 4), "at most 4 bytes");
  EXPECT_ERROR(read_file("/dev/zero", 1 << 20), "at most 1048576 bytes");
  EXPECT_ERROR(read_file(folder / "file" / "x"), "/file/x: not found (a part of the path is a file");
  EXPECT_EQ(error_of([&] { read_file(""); }), "\"\" is not a file name (give the path of a file)");
  std::filesystem::create_symlink("nowhere", folder / "link");
  EXPECT_EQ(error_of([&] { read_file(folder / "link"); }),
            (folder / "link").string() + ": not found (a symbolic link to nowhere, which does not exist)");
}

TEST(ReadRegularFile, TakesNothingElseAndDoesNotWait) {
  const TemporaryFolder folder;
  const auto error = [&](const std::filesystem::path& path) {
    return error_of([&] { read_regular_file(path, 5); });
  };
  spill(folder / "file", "12345");
  EXPECT_EQ(read_regular_file(folder / "file", 5), "12345");
  spill(folder / "longer", "123456");
  EXPECT_THAT(error(folder / "longer"), HasSubstr("longer: expected a file of at most 5 bytes"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error(folder / "pipe"), HasSubstr("pipe: expected a regular file, got a pipe"));
  EXPECT_THAT(error("/dev/zero"), HasSubstr("expected a regular file, got a device"));
  EXPECT_THAT(error(folder.path()), HasSubstr("expected a file, got a directory"));
  EXPECT_THAT(error(""), HasSubstr("\"\" is not a file name"));
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  const std::string name = (folder / "socket").string();
  ASSERT_LT(name.size(), sizeof address.sun_path);
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(error(name), HasSubstr("socket: expected a regular file, got a socket"));
  ::close(listener);
  // Files whose size is unknown before they are read.
  EXPECT_THAT(error("/proc/self/maps"), HasSubstr("at most 5 bytes"));
  EXPECT_FALSE(read_regular_file("/proc/self/stat", 1 << 16).empty());
}

TEST(ReadFile, SaysWhenReadingIsNotAllowed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  spill(folder / "file", "x");
  ::chmod((folder / "file").c_str(), 0);
  EXPECT_ERROR(read_file(folder / "file"), "Permission denied");
}

TEST(MappedFile, ShowsTheFileAndKeepsChangesToItself) {
  const TemporaryFolder folder;
  spill(folder / "file", "hello");
  const auto mapped = MappedFile::open(folder / "file");
  ASSERT_EQ(mapped->bytes(), 5u);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(mapped->data()), 5), "hello");
  mapped->data()[0] = std::byte{'j'};
  EXPECT_EQ(slurp(folder / "file"), "hello");
  std::filesystem::remove(folder / "file");
  EXPECT_EQ(std::string(reinterpret_cast<char*>(mapped->data()), 5), "jello");
  spill(folder / "empty", "");
  EXPECT_EQ(MappedFile::open(folder / "empty")->bytes(), 0u);
}

TEST(MappedFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MappedFile::open(folder / "none"), "none: not found");
  EXPECT_ERROR(MappedFile::open(folder.path()), "a directory");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile::open(folder / "pipe"), "regular file");
}

// With another time, which a file system may count in steps of milliseconds.
void write_into(const std::filesystem::path& path, const std::string& content) {
  spill(path, content);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
}

TEST(MappedFile, SeesThatItsFileWasWrittenTo) {
  const TemporaryFolder folder;
  for (const char* name : {"renamed", "same", "cut"}) spill(folder / name, "hello");
  MappedFiles files;
  files.add_from([&] { MappedFile::open(folder / "same"); });  // not mapped any more
  const auto renamed = MappedFile::open(folder / "renamed"), same = MappedFile::open(folder / "same");
  std::shared_ptr<MappedFile> cut;
  files.add_from([&] { cut = MappedFile::open(folder / "cut", "model/cut"); });
  EXPECT_NO_THROW(same->require_unchanged());
  write_file(folder / "renamed", "other");
  EXPECT_NO_THROW(renamed->require_unchanged());
  write_into(folder / "same", "other");
  EXPECT_ERROR(same->require_unchanged(), (folder / "same").string() + ": expected the 5 bytes that were");
  EXPECT_NO_THROW(files.require_unchanged());
  spill(folder / "cut", "");
  EXPECT_ERROR(files.require_unchanged(),
               "model/cut: expected the 5 bytes that were opened, got a file of 0 that was written to since");
  cut.reset();
  EXPECT_NO_THROW(files.require_unchanged());
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  spill(folder / "file", "old");
  {
    AtomicFile file(folder / "file");
    file.write("ne");
    EXPECT_EQ(slurp(folder / "file"), "old");
    EXPECT_EQ(listing(folder.path()).size(), 2u);
    EXPECT_EQ(remove_stale_temporaries(folder.path()), 0u) << "a file being written is not stale";
    file.write("w");
    file.commit();
  }
  EXPECT_EQ(slurp(folder / "file"), "new");
  EXPECT_THAT(listing(folder.path()), ElementsAre("file"));
}

TEST(AtomicFile, LeavesNothingWhenNotCommitted) {
  const TemporaryFolder folder;
  spill(folder / "file", "old");
  { AtomicFile(folder / "file").write("new"); }
  { AtomicFile(folder / "other").write("new"); }
  EXPECT_EQ(slurp(folder / "file"), "old");
  EXPECT_THAT(listing(folder.path()), ElementsAre("file"));
}

TEST(AtomicFile, KeepsPermissionsAndFollowsLinks) {
  const TemporaryFolder folder;
  spill(folder / "real", "old");
  ::chmod((folder / "real").c_str(), 0640);
  std::filesystem::create_symlink("real", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(slurp(folder / "real"), "new");
  struct stat status {};
  ASSERT_EQ(::stat((folder / "real").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST(AtomicFile, WritesDirectlyToWhatIsNoFile) {
  write_file("/dev/null", "gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  const std::string message = error_of([] { write_file("/dev/full", "12345"); });
  EXPECT_THAT(message, HasSubstr("/dev/full: cannot write 5 bytes: No space left on device ("));
  EXPECT_THAT(message, HasSubstr("MiB free"));
}

TEST(AtomicFile, SaysWhyItCannotBegin) {
  const TemporaryFolder folder;
  EXPECT_ERROR(AtomicFile(folder / "none" / "file"), "No such file or directory");
  EXPECT_ERROR(AtomicFile file(folder.path()), "got a directory");
  EXPECT_ERROR(AtomicFile file(folder.path().string() + "/"), "got a directory");
  EXPECT_ERROR(AtomicFile(folder / std::string(300, 'n')), "File name too long");
  if (::geteuid() == 0) return;  // root may write anywhere
  ::chmod(folder.path().c_str(), 0500);
  EXPECT_ERROR(AtomicFile(folder / "file"), "Permission denied");
  ::chmod(folder.path().c_str(), 0700);
}

// A file size limit fails in the middle of a write, like a full disk, and needs no privileges.
TEST(AtomicFile, FailureInTheMiddleKeepsTheOldFile) {
  const TemporaryFolder folder;
  spill(folder / "file", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 16, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of([&] { write_file(folder / "file", std::string(1 << 20, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(
      message,
      HasSubstr("cannot write 1048576 bytes: File too large (the size of files is limited: see ulimit -f)"));
  EXPECT_EQ(slurp(folder / "file"), "old");
  EXPECT_THAT(listing(folder.path()), ElementsAre("file"));
}

// Runs in a separate process with private mounts. 0: passed, 77: not allowed to mount.
int fill_a_disk(const TemporaryFolder& folder) {
  if (::unshare(CLONE_NEWNS) != 0) return 77;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k") != 0) return 77;
  write_file(folder / "file", "old");
  const std::string message = error_of([&] { write_file(folder / "file", std::string(1 << 20, 'x')); });
  if (message.find("cannot write 1048576 bytes: No space left on device (0 MiB free") == std::string::npos)
    return 1;
  const std::string directory_message = error_of([&] {
    AtomicDirectory directory(folder / "step");
    write_file(directory.path() / "big", std::string(1 << 20, 'x'));
  });
  if (directory_message.find("No space left on device") == std::string::npos) return 2;
  if (slurp(folder / "file") != "old") return 3;
  return listing(folder.path()).size() == 1 ? 0 : 4;
}

TEST(AtomicFile, FullDiskIsToldAndKeepsTheOldFile) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(fill_a_disk(folder));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting a small disk is not allowed here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace heed
