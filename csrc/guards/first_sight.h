// A guard on the identity of an object that has no name: `FirstSight(verify, of_type=False)`.
//
// The first object for which `verify` is true is the one; from then on only it passes, compared by
// address. It is remembered by a weak reference where it can be, so that no model is kept alive by
// its guards. A false answer is remembered too, for the object last refused. With `of_type` the
// object's class is what counts. Calls never raise: torch does not catch that everywhere.
#pragma once

#include "python/ref.h"

namespace hotstart::guards {

// The class, ready to be put into a module; null with a Python exception.
[[nodiscard]] Ref first_sight_type();

}  // namespace hotstart::guards
