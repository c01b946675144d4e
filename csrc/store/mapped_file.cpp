// See mapped_file.h.
#include "store/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

#include "store/unique_fd.h"

namespace hotstart {
namespace {

// One read() moves at most this much: macOS refuses more than 2^31 - 1 bytes.
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

// Opens a regular file. O_NONBLOCK keeps a FIFO or a device from holding us up before we refuse it.
Status open_regular(const std::string& path, UniqueFd& fd, std::size_t& size) {
  do {
    fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  } while (!fd.ok() && errno == EINTR);
  if (!fd.ok()) return Status::system(errno, path);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return Status::system(errno, path);
  if (S_ISDIR(info.st_mode)) return Status::system(EISDIR, path);
  if (!S_ISREG(info.st_mode)) return Status::system(EINVAL, path);
  if (static_cast<std::uint64_t>(info.st_size) > std::numeric_limits<std::size_t>::max() / 2) {
    return Status::system(EFBIG, path);
  }
  size = static_cast<std::size_t>(info.st_size);
  return {};
}

// Reads up to `size` bytes; fewer only where the file ends earlier.
Status read_all(int fd, const std::string& path, std::byte* out, std::size_t size,
                std::size_t& got) {
  got = 0;
  while (got < size) {
    const ssize_t n = ::read(fd, out + got, std::min(size - got, kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::system(errno, path);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return {};
}

// What mmap says of a file or filesystem that cannot be mapped although it can be read.
bool cannot_map(int error) {
  return error == ENODEV || error == EINVAL || error == EACCES || error == ENOTSUP ||
         error == ENOSYS || error == EPERM;
}

}  // namespace

FileBytes::FileBytes(FileBytes&& other) noexcept { *this = std::move(other); }

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

FileBytes::~FileBytes() {
  if (mapped_) {
    ::munmap(data_, size_);
  } else {
    delete[] data_;
  }
}

Status read_file(const std::string& path, FileBytes& out) {
  UniqueFd fd;
  std::size_t size = 0;
  if (Status status = open_regular(path, fd, size); !status.ok()) return status;
  FileBytes file;
  file.data_ = new std::byte[size];
  if (Status status = read_all(fd.get(), path, file.data_, size, file.size_); !status.ok()) {
    return status;
  }
  out = std::move(file);
  return {};
}

Status map_file(const std::string& path, FileBytes& out) {
  UniqueFd fd;
  std::size_t size = 0;
  if (Status status = open_regular(path, fd, size); !status.ok()) return status;
  if (size == 0) {
    out = FileBytes();
    return {};
  }
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return cannot_map(errno) ? read_file(path, out) : Status::system(errno, path);
  }
  FileBytes file;
  file.data_ = static_cast<std::byte*>(memory);
  file.size_ = size;
  file.mapped_ = true;
  out = std::move(file);
  return {};
}

}  // namespace hotstart
