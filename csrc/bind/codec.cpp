// The codec's face in Python. The classes hold what the C++ ones borrow.
#include <optional>

#include "bind/prelude.h"
#include "codec/code_object.h"
#include "codec/decode.h"
#include "codec/encode.h"
#include "codec/validate.h"

namespace hotstart::bind {
namespace {

// The bytes of an object with the buffer protocol, for as long as this lives.
class Buffer {
 public:
  explicit Buffer(py::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) < 0) throw py::error_already_set();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Bytes bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

PyObject* or_null(const py::object& hook) { return hook.is_none() ? nullptr : hook.ptr(); }

// A new reference, or the exception that says why there is none.
py::object take(Ref made, const Status& status) {
  if (!made) {
    check(status);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(made.release());
}

class PyEncoder {
 public:
  explicit PyEncoder(const py::object& hook) : encoder_(or_null(hook)) {}

  py::object encode(const py::object& value) {
    Status status;
    Ref made = encoder_.encode(value.ptr(), status);
    return take(std::move(made), status);
  }
  py::object string_table() const { return take(encoder_.string_table(), {}); }

  codec::Encoder& inner() { return encoder_; }

 private:
  codec::Encoder encoder_;
};

class PyDecoder {
 public:
  PyDecoder(const py::object& string_table, const py::object& hook)
      : table_(string_table), decoder_(or_null(hook)) {
    check(decoder_.open(table_.bytes()));
  }

  py::object decode(const py::object& data) {
    const Buffer buffer(data);
    Status status;
    Ref made = decoder_.decode(buffer.bytes(), status);
    return take(std::move(made), status);
  }

  codec::Decoder& inner() { return decoder_; }

 private:
  Buffer table_;
  codec::Decoder decoder_;
};

// Lets the garbage collector see the hook: a hook often belongs to what owns the encoder.
template <typename Class>
void collectable(PyHeapTypeObject* heap_type) {
  auto& type = heap_type->ht_type;
  type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) -> int {
    Py_VISIT(Py_TYPE(self));
    if (py::detail::is_holder_constructed(self))
      Py_VISIT(py::cast<Class&>(py::handle(self)).inner().hook());
    return 0;
  };
  type.tp_clear = [](PyObject* self) -> int {
    if (py::detail::is_holder_constructed(self))
      py::cast<Class&>(py::handle(self)).inner().clear_hook();
    return 0;
  };
}

py::bytes dumps(const py::object& value, const py::object& hook) {
  PyEncoder encoder(hook);
  const py::object stream = encoder.encode(value);
  const py::object table = encoder.string_table();
  const auto table_size = static_cast<std::size_t>(PyBytes_GET_SIZE(table.ptr()));
  if (table_size > UINT32_MAX) check(Status::unsupported("value: too many strings"));
  const auto prefix = static_cast<std::uint32_t>(table_size);
  const auto stream_size = static_cast<std::size_t>(PyBytes_GET_SIZE(stream.ptr()));
  Ref made = Ref::steal(PyBytes_FromStringAndSize(
      nullptr, static_cast<Py_ssize_t>(sizeof prefix + table_size + stream_size)));
  if (!made) throw py::error_already_set();
  char* at = PyBytes_AS_STRING(made.get());
  std::memcpy(at, &prefix, sizeof prefix);
  std::memcpy(at + sizeof prefix, PyBytes_AS_STRING(table.ptr()), table_size);
  std::memcpy(at + sizeof prefix + table_size, PyBytes_AS_STRING(stream.ptr()), stream_size);
  return py::reinterpret_steal<py::bytes>(made.release());
}

py::object loads(const py::object& data, const py::object& hook) {
  const Buffer buffer(data);
  Bytes table;
  Bytes stream;
  check(codec::split(buffer.bytes(), table, stream));
  codec::Decoder decoder(or_null(hook));
  check(decoder.open(table));
  Status status;
  Ref made = decoder.decode(stream, status);
  return take(std::move(made), status);
}

}  // namespace

void register_codec(py::module_& m) {
  if (!codec::load_instruction_table()) throw py::error_already_set();

  py::class_<PyEncoder>(m, "Encoder", py::custom_type_setup(collectable<PyEncoder>))
      .def(py::init<const py::object&>(), py::arg("hook") = py::none())
      .def("encode", &PyEncoder::encode, py::arg("value"))
      .def("string_table", &PyEncoder::string_table);
  py::class_<PyDecoder>(m, "Decoder", py::custom_type_setup(collectable<PyDecoder>))
      .def(py::init<const py::object&, const py::object&>(), py::arg("string_table"),
           py::arg("hook") = py::none())
      .def("decode", &PyDecoder::decode, py::arg("data"));

  m.def("dumps", &dumps, py::arg("value"), py::arg("hook") = py::none());
  m.def("loads", &loads, py::arg("data"), py::arg("hook") = py::none());
  m.def(
      "validate", [](const py::object& data) { check(codec::validate(Buffer(data).bytes())); },
      py::arg("data"), py::pos_only());
  m.def(
      "validate",
      [](const py::object& string_table, const py::object& stream) {
        const Buffer table(string_table);
        check(codec::validate(table.bytes(), Buffer(stream).bytes()));
      },
      py::arg("string_table"), py::arg("stream"), py::pos_only());
}

}  // namespace hotstart::bind
