// A file's bytes in memory, mapped or read. The only platform code for reading files. No Python
// here.
//
// FileBytes owns the mapping or the copy; spans of bytes() are valid while it lives, and it is
// immutable, so any number of threads may read. hotstart's own writers replace files by rename and
// never shorten one in place, so a mapping keeps showing the file that was opened. Another program
// that truncates a mapped file makes the next access to the lost pages a SIGBUS, which no check
// here can prevent: read() such files.
#pragma once

#include <cstddef>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace hotstart {

class FileBytes {
 public:
  FileBytes() = default;
  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes();

  Bytes bytes() const { return {data_, size_}; }
  bool mapped() const { return mapped_; }

 private:
  friend Status map_file(const std::string& path, FileBytes& out);
  friend Status read_file(const std::string& path, FileBytes& out);

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

// Maps a regular file read-only, or reads it where its filesystem cannot map. An empty file gives
// no bytes.
Status map_file(const std::string& path, FileBytes& out);

// Reads a regular file into memory.
Status read_file(const std::string& path, FileBytes& out);

}  // namespace hotstart
