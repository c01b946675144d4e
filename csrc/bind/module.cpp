#include "bind/prelude.h"

// No mod_gil_not_used(): encoders, decoders and their tables rely on the GIL.
PYBIND11_MODULE(_core, m) {
  m.doc() = "hotstart's native core: codec, hash, container and file publishing. Needs no torch.";
  hotstart::bind::register_codec(m);
  hotstart::bind::register_hash(m);
  hotstart::bind::register_container(m);
  hotstart::bind::register_store(m);
  hotstart::bind::register_guards(m);
}
