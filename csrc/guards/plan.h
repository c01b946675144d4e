// A guard plan's bytes: the calls that built a guard tree, in order. No Python here.
//
// docs/format-guards.md describes them. A view borrows the bytes and belongs to one thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace hotstart::guards {

inline constexpr std::string_view kPlanMagic = "hsguard1";
inline constexpr std::size_t kPlanHeader = 32;

struct Plan {
  std::uint32_t value_count = 0;
  std::uint32_t node_count = 0;  // the root is node 0
  Bytes values;                  // the codec's; opaque here
  Bytes tape;
  Bytes cold;  // what only messages need; opaque here

  [[nodiscard]] Status open(Bytes data);
};

// What an operation is called on and what it makes.
enum class Shape : std::uint8_t {
  kAccessor = 0,       // a node's method that makes a node
  kKeyedAccessor = 1,  // the same, with a key before the source
  kLeaf = 2,           // a node's method that adds a guard to it
  kFunction = 3,       // a function that ties nodes together
};

// The example value a node is made with. C++ looks at its type, and at the size of a dict.
enum class Example : std::uint8_t { kNone = 0, kObject = 1, kDict = 2, kTensor = 3, kValue = 4 };

inline constexpr std::uint8_t kExampleMask = 0x07;
inline constexpr std::uint8_t kIsDictManager = 0x08;
inline constexpr std::uint8_t kTagSafe = 0x10;
inline constexpr std::uint8_t kTagSafeRoot = 0x20;
inline constexpr std::uint8_t kNodeFlags = 0x3f;

enum class ArgKind : char {
  kValue = 'v',     // a value of the plan
  kSource = 's',    // the receiver's source
  kNode = 'n',      // a node
  kNodes = 'N',     // a list of nodes
  kMessages = 'm',  // the list of texts that a failing guard shows
  kStack = 'u',     // the user's stack where the guard was made
};

struct Operation {
  std::string_view name;
  Shape shape = Shape::kLeaf;
  std::string_view arguments;  // one ArgKind each
};

// One call of the tape. What a field means depends on the operation's shape.
struct Step {
  std::uint32_t operation = 0;
  std::uint32_t receiver = 0;  // all but functions: a node
  // Accessors:
  std::uint32_t key = 0;      // a value, with kKeyedAccessor
  std::uint8_t flags = 0;     // an Example and the bits above
  std::uint32_t example = 0;  // a value, with Example::kValue
  std::uint32_t cut = 0;     // the new node's source is the receiver's without so many code points,
  std::uint32_t suffix = 0;  // and this value, a string, after it
  // Leaves and functions: for each argument an index (kValue, kNode), the number of nodes that
  // follow in `nodes` (kNodes), or nothing.
  std::vector<std::uint32_t> arguments;
  std::vector<std::uint32_t> nodes;
};

class TapeReader {
 public:
  explicit TapeReader(const Plan& plan);

  [[nodiscard]] bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  const std::vector<Operation>& operations() const { return operations_; }

  // The next call. False at the end and where the bytes are wrong; then `ok` tells which.
  [[nodiscard]] bool next(Step& step);

 private:
  void read_operations();
  bool read_accessor(Step& step);
  bool read_arguments(const Operation& operation, Step& step);
  bool read_value(std::uint32_t& out);
  bool read_node(std::uint32_t& out);
  bool read_number(std::uint32_t& out);
  bool fail(const char* reason);

  Cursor at_;
  std::uint32_t value_count_;
  std::uint32_t node_count_;
  std::uint32_t nodes_made_ = 1;
  std::vector<Operation> operations_;
  Status status_;
};

// Whether a replay of the bytes reads only what is there.
[[nodiscard]] Status validate_plan(Bytes data);

}  // namespace hotstart::guards
