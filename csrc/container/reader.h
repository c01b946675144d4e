// A validated view of a container in memory that somebody else owns. No Python here.
//
// The header and the table of contents are copied out and checked once, in open(); whatever happens
// to the bytes afterwards, no read leaves them. Immutable after open() except for one "verified"
// mark a section, which is atomic: any number of threads may read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "container/layout.h"

namespace hotstart {

class ContainerReader {
 public:
  // Checks everything but the payloads. `data` is borrowed for the reader's life.
  Status open(Bytes data);

  Bytes data() const { return data_; }
  std::uint32_t version() const { return version_; }
  std::span<const SectionInfo> sections() const { return sections_; }

  // The index of a section, or nothing.
  std::optional<std::size_t> find(std::uint32_t kind, std::uint32_t ordinal) const;

  // Whether the payload has been found intact before.
  bool verified(std::size_t index) const {
    return verified_[index].load(std::memory_order_acquire);
  }

  // Compares a payload with its checksum, the first time only.
  Status verify(std::size_t index) const;

  // All payloads, checksummed again whether or not that was done before.
  Status verify_all() const;

  Bytes payload(std::size_t index) const {
    const SectionInfo& section = sections_[index];
    return data_.subspan(section.offset, section.length);
  }

 private:
  Status check_payload(std::size_t index) const;

  Bytes data_;
  std::uint32_t version_ = 0;
  std::vector<SectionInfo> sections_;
  std::unique_ptr<std::atomic<bool>[]> verified_;
};

}  // namespace hotstart
