// A guard that modules have no hooks, at the price of one leaf for a module.
//
// `NoHooks(names, seen)` is called with a module's __dict__, and is true if what it has under each
// of the names is an empty dict. Those dicts go into `seen`, a `SeenDicts()`; that one, called with
// anything, is true as long as all of them are empty. torch skips whole modules whose dicts of
// attributes have not changed, and with them the first guard; a hook that is added later changes a
// dict further inside. So the second guard hangs where nothing is skipped.
#pragma once

#include "python/ref.h"

namespace hotstart::guards {

// The classes, ready to be put into a module; null with a Python exception.
[[nodiscard]] Ref seen_dicts_type();
[[nodiscard]] Ref no_hooks_type();

}  // namespace hotstart::guards
