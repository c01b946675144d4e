// Container and build_container() of hotstart._core.
//
// A Container owns its bytes (a mapping, a copy, or a buffer it borrows from a Python object) and
// exports them by the buffer protocol; get() slices that export, so every view keeps the container,
// and with it the mapping, alive. Immutable, hence no lock.
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/buffer.h"
#include "bind/path.h"
#include "container/reader.h"
#include "container/writer.h"
#include "store/mapped_file.h"

namespace hotstart::bind {
namespace {

struct Container {
  FileBytes file;
  std::optional<BufferView> buffer;
  std::string copy;
  std::optional<std::string> path;
  ContainerReader reader;
};

using ContainerPtr = std::unique_ptr<Container>;
using SectionTuple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, py::object>;
using LoadFile = Status (*)(const std::string& path, FileBytes& out);

ContainerPtr open_file(py::handle path, LoadFile load) {
  auto container = std::make_unique<Container>();
  container->path = fs_path(path);
  Status status;
  {
    py::gil_scoped_release release;
    status = load(*container->path, container->file);
    if (status.ok()) status = container->reader.open(container->file.bytes());
  }
  check(status);
  return container;
}

ContainerPtr from_bytes(py::handle data) {
  auto container = std::make_unique<Container>();
  container->buffer.emplace(data);
  Bytes bytes = container->buffer->bytes();
  if (!container->buffer->readonly()) {
    // The owner could change it after the checks.
    container->copy.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    container->buffer.reset();
    bytes = as_bytes(container->copy);
  }
  check(container->reader.open(bytes));
  return container;
}

py::list sections(const Container& self) {
  const auto infos = self.reader.sections();
  py::list out(infos.size());
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const SectionInfo& s = infos[i];
    out[i] = py::make_tuple(s.kind, s.ordinal, s.flags, s.offset, s.length, s.checksum);
  }
  return out;
}

void verify_section(const ContainerReader& reader, std::size_t index) {
  if (reader.verified(index)) return;
  check(
      without_gil_if_large(reader.sections()[index].length, [&] { return reader.verify(index); }));
}

// memoryview(container)[offset : offset + length], through the C API.
py::object slice_of(const py::object& container, const SectionInfo& section) {
  const auto whole = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(container.ptr()));
  if (!whole) throw py::error_already_set();
  const py::slice range(static_cast<Py_ssize_t>(section.offset),
                        static_cast<Py_ssize_t>(section.offset + section.length), 1);
  const auto part = py::reinterpret_steal<py::object>(PyObject_GetItem(whole.ptr(), range.ptr()));
  if (!part) throw py::error_already_set();
  return part;
}

py::object get(const py::object& self, std::uint32_t kind, std::uint32_t ordinal) {
  const auto& reader = self.cast<const Container&>().reader;
  const auto index = reader.find(kind, ordinal);
  if (!index) {
    throw py::key_error("no section (kind " + std::to_string(kind) + ", ordinal " +
                        std::to_string(ordinal) + ")");
  }
  verify_section(reader, *index);
  return slice_of(self, reader.sections()[*index]);
}

void verify(const Container& self) {
  check(without_gil_if_large(self.reader.data().size(), [&] { return self.reader.verify_all(); }));
}

py::buffer_info whole_buffer(const Container& self) {
  const Bytes data = self.reader.data();
  return {reinterpret_cast<const std::uint8_t*>(data.data()), static_cast<py::ssize_t>(data.size()),
          /*readonly=*/true};
}

py::bytes build_container(const py::sequence& sections) {
  std::vector<BufferView> views;
  std::vector<SectionInput> inputs;
  for (const py::handle item : sections) {
    const auto [kind, ordinal, flags, payload] =
        cast_item<SectionTuple>(item, "(kind, ordinal, flags, payload) with 32-bit numbers");
    views.emplace_back(payload);
    inputs.push_back({kind, ordinal, flags, views.back().bytes()});
  }
  std::uint64_t size = 0;
  const Status status = plan_container(inputs, size);
  if (!status.ok()) throw py::value_error(status.reason);
  auto out = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!out) throw py::error_already_set();
  auto* memory = reinterpret_cast<std::byte*>(PyBytes_AS_STRING(out.ptr()));
  without_gil_if_large(size, [&] { write_container(inputs, size, memory); });
  return out;
}

}  // namespace

void register_container(py::module_& m) {
  using py::arg;
  py::class_<Container>(m, "Container", py::buffer_protocol(), py::is_final(),
                        "A package file: checked sections over mapped or borrowed bytes.")
      .def_static(
          "open", [](py::handle path) { return open_file(path, map_file); }, arg("path"),
          "Maps a file (reads it where it cannot be mapped) and checks its header.")
      .def_static(
          "read", [](py::handle path) { return open_file(path, read_file); }, arg("path"),
          "Like open(), with the whole file read into memory.")
      .def_static("from_bytes", &from_bytes, arg("data"),
                  "Over a bytes-like object; a writable one is copied.")
      .def_property_readonly("version", [](const Container& self) { return self.reader.version(); })
      .def_property_readonly("size",
                             [](const Container& self) { return self.reader.data().size(); })
      .def_property_readonly("mapped", [](const Container& self) { return self.file.mapped(); })
      .def_property_readonly("path",
                             [](const Container& self) -> py::object {
                               if (!self.path) return py::none();
                               return fs_str(*self.path);
                             })
      .def("sections", &sections,
           "(kind, ordinal, flags, offset, length, checksum) of each, in file order.")
      .def(
          "has",
          [](const Container& self, std::uint32_t kind, std::uint32_t ordinal) {
            return self.reader.find(kind, ordinal).has_value();
          },
          arg("kind"), arg("ordinal") = 0)
      .def("get", &get, arg("kind"), arg("ordinal") = 0,
           "A read-only view of a payload, verified at its first use. KeyError if absent.")
      .def("verify", &verify, "Compares every payload with its checksum.")
      .def_buffer(&whole_buffer);
  m.def("build_container", &build_container, arg("sections"),
        "The bytes of a container of (kind, ordinal, flags, payload) sections. The same sections, "
        "in any order, give the same bytes.");
}

}  // namespace hotstart::bind
