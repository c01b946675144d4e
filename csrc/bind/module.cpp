#include "bind/prelude.h"

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used()) {
  m.doc() = "hotstart's native core: codec, hash, container and file publishing. Needs no torch.";
  hotstart::bind::register_hash(m);
  hotstart::bind::register_container(m);
  hotstart::bind::register_store(m);
}
