// Guard plans' face in Python.
#include "bind/buffer.h"
#include "guards/first_sight.h"
#include "guards/no_hooks.h"
#include "guards/plan.h"
#include "guards/replay.h"

namespace hotstart::bind {
namespace {

py::list replay_guards(py::handle data, const py::tuple& values, const py::object& texts,
                       const py::tuple& face) {
  if (face.size() != 7) throw py::type_error("the face of a guard tree has seven parts");
  if (!texts.is_none() && !PyTuple_Check(texts.ptr()))
    throw py::type_error("texts must be a tuple or None");
  const BufferView view(data);
  guards::Plan plan;
  check(plan.open(view.bytes()));
  const auto part = [&face](py::size_t i) {
    return PyTuple_GET_ITEM(face.ptr(), static_cast<Py_ssize_t>(i));
  };
  const guards::TreeFace parts{part(0), part(1), part(2), part(3), part(4), part(5), part(6)};
  Status status;
  Ref nodes =
      guards::replay(plan, values.ptr(), texts.is_none() ? nullptr : texts.ptr(), parts, status);
  if (!nodes) {
    check(status);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::list>(nodes.release());
}

void add_class(py::module_& m, const char* name, Ref made) {
  if (!made) throw py::error_already_set();
  m.attr(name) = py::reinterpret_steal<py::object>(made.release());
}

}  // namespace

void register_guards(py::module_& m) {
  add_class(m, "FirstSight", guards::first_sight_type());
  add_class(m, "SeenDicts", guards::seen_dicts_type());
  add_class(m, "NoHooks", guards::no_hooks_type());
  m.def("replay_guards", &replay_guards, py::arg("plan"), py::arg("values"), py::arg("texts"),
        py::arg("face"));
  m.def(
      "validate_plan",
      [](py::handle data) { check(guards::validate_plan(BufferView(data).bytes())); },
      py::arg("plan"));
}

}  // namespace hotstart::bind
