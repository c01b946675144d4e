// Builds a guard tree by making the calls of a plan's tape on torch's guard objects.
//
// Knows no torch: classes and functions are passed in, methods are found by the names in the tape.
// Needs the GIL, and calls into torch, so no lock of ours may be held.
#pragma once

#include "guards/plan.h"
#include "python/ref.h"

namespace hotstart::guards {

// All borrowed.
struct TreeFace {
  PyObject* root_class;
  PyObject* manager_class;
  PyObject* dict_manager_class;
  PyObject* functions;  // where functions are attributes
  PyObject* manager_kind;
  PyObject* dict_manager_kind;
  PyObject* tensor;  // any tensor without dimensions
};

// A list of the tree's nodes, the root first. `values` is a tuple; `texts` a tuple with, for each
// guard in order, its messages and its stack, or null where nobody will read them. Null with a
// Python exception, or with a status where the bytes are wrong.
[[nodiscard]] Ref replay(const Plan& plan, PyObject* values, PyObject* texts, const TreeFace& face,
                         Status& status);

}  // namespace hotstart::guards
