// The decoder with Python: what decodes can be hashed, compared and walked through, and encodes to
// bytes that decode and encode to the same bytes again.
#include <Python.h>

#include <cstdlib>
#include <string_view>

#include "codec/code_object.h"
#include "codec/decode.h"
#include "codec/encode.h"
#include "codec/validate.h"

using namespace hotstart;

namespace {

PyObject* start_python() {
  Py_Initialize();
  PyRun_SimpleString(
      "import types\n"
      "def use(value):\n"
      "    try: hash(value), value == value, len(repr(value))\n"
      "    except (TypeError, ValueError, RecursionError): pass\n"
      "    if isinstance(value, types.CodeType):\n"
      "        for name in ('co_lines', 'co_positions', 'co_branches'):\n"
      "            list(getattr(value, name, tuple)())\n"
      "        if value.co_firstlineno >= 0: assert value.replace().co_code == value.co_code\n"
      "        use(value.co_consts)\n"
      "    elif isinstance(value, (tuple, list, set, frozenset)):\n"
      "        for item in value: use(item)\n"
      "    elif isinstance(value, dict): use(list(value.items()))\n"
      "def hook(tag, payload): return (tag, payload)\n");
  if (!codec::load_instruction_table()) std::abort();
  return PyModule_GetDict(PyImport_AddModule("__main__"));
}

[[noreturn]] void give_up() {
  PyErr_Print();
  std::abort();
}

Ref decode(Bytes table, Bytes stream, PyObject* hook) {
  Status status;
  codec::Decoder decoder(hook);
  Ref made;
  if (decoder.open(table).ok()) made = decoder.decode(stream, status);
  if (!made && PyErr_Occurred()) give_up();
  codec::StringTableView strings;  // validation also looks at strings that the stream does not use
  const bool sound = strings.open(table).ok() && strings.check_all().ok();
  if (made && sound && !codec::validate(table, stream).ok()) std::abort();
  return made;
}

struct Encoded {
  Ref table, stream;
};

Encoded encode(PyObject* value) {
  Status status;
  codec::Encoder encoder(nullptr);
  Encoded out;
  out.stream = encoder.encode(value, status);
  if (!out.stream) give_up();
  out.table = encoder.string_table();
  return out;
}

Bytes view(const Ref& bytes) {
  return as_bytes(
      {PyBytes_AS_STRING(bytes.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))});
}

void check(Bytes table, Bytes stream) {
  static PyObject* const globals = start_python();
  const Ref value = decode(table, stream, PyDict_GetItemString(globals, "hook"));
  if (!value) return;
  const Ref used =
      Ref::steal(PyObject_CallOneArg(PyDict_GetItemString(globals, "use"), value.get()));
  if (!used) give_up();
  const Encoded first = encode(value.get());
  const Ref again = decode(view(first.table), view(first.stream), nullptr);
  if (!again) std::abort();
  const Encoded second = encode(again.get());
  if (PyObject_RichCompareBool(first.stream.get(), second.stream.get(), Py_EQ) != 1 ||
      PyObject_RichCompareBool(first.table.get(), second.table.get(), Py_EQ) != 1)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes table;
  Bytes stream;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  if (codec::split(bytes, table, stream).ok()) check(table, stream);
  return 0;
}
