#include "guards/first_sight.h"

#include <structmember.h>

#include <cstddef>
#include <new>

namespace hotstart::guards {
namespace {

// Knows one object again, without keeping it alive where that can be helped.
class Memory {
 public:
  bool empty() const { return !kept_; }

  bool is(PyObject* object) const {
    if (!kept_) return false;
    if (!weak_) return kept_.get() == object;
#if PY_VERSION_HEX >= 0x030d0000
    PyObject* alive = nullptr;
    if (PyWeakref_GetRef(kept_.get(), &alive) < 0) PyErr_Clear();
    Py_XDECREF(alive);
    return alive == object;
#else
    return PyWeakref_GetObject(kept_.get()) == object;
#endif
  }

  void remember(PyObject* object) {
    Ref reference = Ref::steal(PyWeakref_NewRef(object, nullptr));
    weak_ = static_cast<bool>(reference);
    if (!weak_) PyErr_Clear();
    kept_ = weak_ ? std::move(reference) : Ref::share(object);
  }

  void clear() { kept_ = Ref(); }
  PyObject* held() const { return kept_.get(); }

 private:
  Ref kept_;
  bool weak_ = false;
};

struct FirstSight {
  PyObject_HEAD vectorcallfunc vectorcall;
  bool of_type;
  Ref verify;
  Memory known;
  Memory refused;
};

FirstSight* cast(PyObject* self) { return reinterpret_cast<FirstSight*>(self); }

bool passes(FirstSight* self, PyObject* object) {
  PyObject* subject = self->of_type ? reinterpret_cast<PyObject*>(Py_TYPE(object)) : object;
  if (!self->known.empty()) return self->known.is(subject);
  if (self->refused.is(subject)) return false;
  const Ref answer = Ref::steal(PyObject_CallOneArg(self->verify.get(), subject));
  const int truth = answer ? PyObject_IsTrue(answer.get()) : -1;
  if (truth < 0) PyErr_Clear();
  (truth == 1 ? self->known : self->refused).remember(subject);
  return truth == 1;
}

PyObject* call(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* keywords) {
  if (PyVectorcall_NARGS(flags) != 1 || keywords != nullptr) {
    PyErr_SetString(PyExc_TypeError, "a FirstSight takes the object to look at");
    return nullptr;
  }
  return PyBool_FromLong(passes(cast(self), arguments[0]));
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"verify", "of_type", nullptr};
  PyObject* verify = nullptr;
  int of_type = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$p", const_cast<char**>(names), &verify,
                                   &of_type))
    return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  FirstSight* made = cast(self);
  made->vectorcall = call;
  made->of_type = of_type != 0;
  new (&made->verify) Ref(Ref::share(verify));
  new (&made->known) Memory();
  new (&made->refused) Memory();
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(cast(self)->verify.get());
  Py_VISIT(cast(self)->known.held());
  Py_VISIT(cast(self)->refused.held());
  return 0;
}

int clear(PyObject* self) {
  cast(self)->verify = Ref();
  cast(self)->known.clear();
  cast(self)->refused.clear();
  return 0;
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  cast(self)->verify.~Ref();
  cast(self)->known.~Memory();
  cast(self)->refused.~Memory();
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FirstSight, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A guard on the identity of an object.")},
                       {Py_tp_new, reinterpret_cast<void*>(make)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_members, members},
                       {0, nullptr}};

PyType_Spec spec = {"hotstart._core.FirstSight", sizeof(FirstSight), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

Ref first_sight_type() { return Ref::steal(PyType_FromSpec(&spec)); }

}  // namespace hotstart::guards
