// Publishing a file: complete or not at all. The only platform code for writing files. No Python.
//
// The data goes to a new temporary file in the target's folder, is fsynced, and replaces the target
// by rename; then the folder is fsynced. A reader sees the old file or the new one, never a part,
// and a mapping of the old one keeps its bytes. Stateless: any number of threads and processes may
// publish, to one path too (the last rename wins).
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace hotstart {

// How the name of every temporary file begins. A process that is killed while it writes leaves one
// behind; whoever owns the folder removes those that are old.
inline constexpr const char* kTemporaryPrefix = ".hotstart-tmp-";

Status publish_file(const std::string& path, Bytes data);

}  // namespace hotstart
