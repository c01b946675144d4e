// Checks encoded bytes without building anything and without Python.
//
// A stream that passes can still be refused by the decoder, for what only Python can tell: keys
// that are equal or cannot be hashed, instructions that this Python does not have, and code objects
// of another Python. Borrows the bytes for the call; any thread.
#pragma once

#include "base/bytes.h"
#include "base/status.h"

namespace hotstart::codec {

// A stream and the string table it refers to. Offsets count from the start of the one that is
// wrong; `reason` says which.
[[nodiscard]] Status validate(Bytes string_table, Bytes stream);

// What dumps() wrote: u32 size of the table, the table, the stream.
[[nodiscard]] Status split(Bytes data, Bytes& string_table, Bytes& stream);
[[nodiscard]] Status validate(Bytes data);

}  // namespace hotstart::codec
