// See publish.h. Every step works relative to one descriptor of the folder, so that the temporary
// file and the target are in the same folder even if that is renamed meanwhile.
#include "store/publish.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "store/unique_fd.h"

namespace hotstart {
namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;
constexpr int kNameAttempts = 16;  // 64 random bits collide once in a universe, not 16 times

// Removes the temporary file unless it has been renamed.
class Temporary {
 public:
  explicit Temporary(int folder) : folder_(folder) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!name_.empty()) ::unlinkat(folder_, name_.c_str(), 0);
  }

  // Creates the file; returns 0 or errno.
  int create() {
    for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
      std::uint64_t bits = 0;
      if (::getentropy(&bits, sizeof bits) != 0) return errno;
      char digits[17];
      std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(bits));
      const std::string name = std::string(kTemporaryPrefix) + digits;
      constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      fd_ = UniqueFd(::openat(folder_, name.c_str(), kFlags, S_IRUSR | S_IWUSR));
      if (fd_.ok()) {
        name_ = name;
        return 0;
      }
      if (errno != EEXIST && errno != EINTR) return errno;
    }
    return EEXIST;
  }

  int rename_to(const std::string& target) {
    if (::renameat(folder_, name_.c_str(), folder_, target.c_str()) != 0) return errno;
    name_.clear();
    return 0;
  }

  int fd() const { return fd_.get(); }

 private:
  int folder_;
  UniqueFd fd_;
  std::string name_;
};

int write_all(int fd, Bytes data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), std::min(data.size(), kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    data = data.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

int sync_file(int fd) {
#if defined(F_FULLFSYNC)
  if (::fcntl(fd, F_FULLFSYNC) == 0) return 0;  // macOS: fsync alone stops at the drive's cache
#endif
  int result;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

// Some filesystems cannot sync a folder and say EINVAL; their renames are as durable as they get.
int sync_folder(int fd) {
  const int error = sync_file(fd);
  return error == EINVAL || error == ENOTSUP ? 0 : error;
}

int publish_in(int folder, const std::string& name, Bytes data) {
  Temporary file(folder);
  if (const int error = file.create(); error != 0) return error;
  if (const int error = write_all(file.fd(), data); error != 0) return error;
  if (const int error = sync_file(file.fd()); error != 0) return error;
  if (const int error = file.rename_to(name); error != 0) return error;
  return sync_folder(folder);
}

}  // namespace

Status publish_file(const std::string& path, Bytes data) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == path.npos ? path : path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..") return Status::system(EISDIR, path);
  UniqueFd fd;
  do {
    fd = UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  } while (!fd.ok() && errno == EINTR);
  if (!fd.ok()) return Status::system(errno, path);
  const int error = publish_in(fd.get(), name, data);
  return error == 0 ? Status{} : Status::system(error, path);
}

}  // namespace hotstart
