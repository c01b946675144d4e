#include "guards/no_hooks.h"

#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace hotstart::guards {
namespace {

// The version of a dict, which no other dict and no other state of it ever has; 0 where Python does
// not tell (3.12 and later).
std::uint64_t version_of(PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
  static_cast<void>(dict);
  return 0;
#endif
}

// Dicts of attributes that were looked at, by address, with their versions then.
class Versions {
 public:
  bool has(PyObject* dict) const {
    const std::uint64_t now = version_of(dict);
    if (now == 0) return false;
    const auto found = versions_.find(dict);
    return found != versions_.end() && found->second == now;
  }

  void note(PyObject* dict) {
    if (versions_.size() > kMost) versions_.clear();
    versions_[dict] = version_of(dict);
  }

 private:
  static constexpr std::size_t kMost = 65536;
  std::unordered_map<PyObject*, std::uint64_t> versions_;
};

// Dicts, each of which is kept alive: they are empty, and do not lead back to their modules.
class Dicts {
 public:
  ~Dicts() { clear(); }

  void add(PyObject* dict) {
    if (!known_.insert(dict).second) return;
    dicts_.push_back(dict);
    Py_INCREF(dict);
    if (dicts_.size() > prune_at_) prune();
  }

  bool all_empty() const {
    for (PyObject* dict : dicts_) {
      if (PyDict_GET_SIZE(dict) != 0) return false;
    }
    return true;
  }

  void clear() {
    known_.clear();
    std::vector<PyObject*> dropped;
    dropped.swap(dicts_);
    for (PyObject* dict : dropped) Py_DECREF(dict);
  }

  int traverse(visitproc visit, void* arg) const {
    for (PyObject* dict : dicts_) Py_VISIT(dict);
    return 0;
  }

 private:
  // Drops those that nobody else has: of models that are gone.
  void prune() {
    std::vector<PyObject*> kept;
    std::vector<PyObject*> dropped;
    for (PyObject* dict : dicts_) (Py_REFCNT(dict) > 1 ? kept : dropped).push_back(dict);
    dicts_.swap(kept);
    for (PyObject* dict : dropped) known_.erase(dict);
    for (PyObject* dict : dropped) Py_DECREF(dict);
    prune_at_ = 2 * dicts_.size() + kPruneFrom;
  }

  static constexpr std::size_t kPruneFrom = 4096;
  std::vector<PyObject*> dicts_;  // in one piece, since each call goes through them
  std::unordered_set<PyObject*> known_;
  std::size_t prune_at_ = kPruneFrom;
};

struct SeenDicts {
  PyObject_HEAD vectorcallfunc vectorcall;
  Dicts dicts;
};

struct NoHooks {
  PyObject_HEAD vectorcallfunc vectorcall;
  Ref names;
  Ref seen;
  Versions passed;  // attributes of modules that had no hooks, unchanged since
};

SeenDicts* as_seen(PyObject* self) { return reinterpret_cast<SeenDicts*>(self); }
NoHooks* as_no_hooks(PyObject* self) { return reinterpret_cast<NoHooks*>(self); }

PyObject* call_seen(PyObject* self, PyObject* const*, size_t, PyObject*) {
  return PyBool_FromLong(as_seen(self)->dicts.all_empty());
}

bool has_no_hooks(NoHooks* self, PyObject* attributes) {
  if (!PyDict_Check(attributes)) return false;
  if (self->passed.has(attributes)) return true;
  Dicts& seen = as_seen(self->seen.get())->dicts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->names.get()); ++i) {
    PyObject* hooks = PyDict_GetItemWithError(attributes, PyTuple_GET_ITEM(self->names.get(), i));
    if (!hooks || !PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) != 0) return false;
    seen.add(hooks);
  }
  self->passed.note(attributes);
  return true;
}

PyObject* call_no_hooks(PyObject* self, PyObject* const* arguments, size_t flags,
                        PyObject* keywords) {
  if (PyVectorcall_NARGS(flags) != 1 || keywords != nullptr) {
    PyErr_SetString(PyExc_TypeError, "a NoHooks takes a module's __dict__");
    return nullptr;
  }
  const bool none = has_no_hooks(as_no_hooks(self), arguments[0]);
  PyErr_Clear();
  return PyBool_FromLong(none);
}

PyObject* make_seen(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {nullptr};
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "", const_cast<char**>(names)))
    return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  as_seen(self)->vectorcall = call_seen;
  new (&as_seen(self)->dicts) Dicts();
  return self;
}

PyObject* make_no_hooks(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* keys[] = {"names", "seen", nullptr};
  PyObject* names = nullptr;
  PyObject* seen = nullptr;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!O", const_cast<char**>(keys),
                                   &PyTuple_Type, &names, &seen))
    return nullptr;
  if (Py_TYPE(seen)->tp_new != make_seen) {
    PyErr_SetString(PyExc_TypeError, "seen must be a SeenDicts");
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  as_no_hooks(self)->vectorcall = call_no_hooks;
  new (&as_no_hooks(self)->names) Ref(Ref::share(names));
  new (&as_no_hooks(self)->seen) Ref(Ref::share(seen));
  new (&as_no_hooks(self)->passed) Versions();
  return self;
}

int traverse_seen(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return as_seen(self)->dicts.traverse(visit, arg);
}

int traverse_no_hooks(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_no_hooks(self)->names.get());
  Py_VISIT(as_no_hooks(self)->seen.get());
  return 0;
}

int clear_seen(PyObject* self) {
  as_seen(self)->dicts.clear();
  return 0;
}

template <typename Members>
void deallocate(PyObject* self, Members&& destroy) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  destroy();
  type->tp_free(self);
  Py_DECREF(type);
}

void deallocate_seen(PyObject* self) {
  deallocate(self, [self] { as_seen(self)->dicts.~Dicts(); });
}

void deallocate_no_hooks(PyObject* self) {
  deallocate(self, [self] {
    as_no_hooks(self)->names.~Ref();
    as_no_hooks(self)->seen.~Ref();
    as_no_hooks(self)->passed.~Versions();
  });
}

constexpr unsigned long kFlags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;

PyMemberDef seen_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(SeenDicts, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot seen_slots[] = {{Py_tp_doc, const_cast<char*>("Dicts that are to stay empty.")},
                            {Py_tp_new, reinterpret_cast<void*>(make_seen)},
                            {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                            {Py_tp_traverse, reinterpret_cast<void*>(traverse_seen)},
                            {Py_tp_clear, reinterpret_cast<void*>(clear_seen)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(deallocate_seen)},
                            {Py_tp_members, seen_members},
                            {0, nullptr}};
PyType_Spec seen_spec = {"hotstart._core.SeenDicts", sizeof(SeenDicts), 0, kFlags, seen_slots};

PyMemberDef no_hooks_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(NoHooks, vectorcall), READONLY, nullptr},
    {"names", T_OBJECT_EX, offsetof(NoHooks, names), READONLY, nullptr},
    {"seen", T_OBJECT_EX, offsetof(NoHooks, seen), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot no_hooks_slots[] = {
    {Py_tp_doc, const_cast<char*>("A guard that a module has no hooks.")},
    {Py_tp_new, reinterpret_cast<void*>(make_no_hooks)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_no_hooks)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate_no_hooks)},
    {Py_tp_members, no_hooks_members},
    {0, nullptr}};
PyType_Spec no_hooks_spec = {"hotstart._core.NoHooks", sizeof(NoHooks), 0, kFlags, no_hooks_slots};

}  // namespace

Ref seen_dicts_type() { return Ref::steal(PyType_FromSpec(&seen_spec)); }

Ref no_hooks_type() { return Ref::steal(PyType_FromSpec(&no_hooks_spec)); }

}  // namespace hotstart::guards
