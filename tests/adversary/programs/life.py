"""Modules that change, are copied, compiled in parts; resets, switching, threads, forks, memory."""

# ruff: noqa
import copy
import gc
import os
import pickle
import tempfile
import threading
import weakref

import torch
from common import V, main, same, scenario, x4

import hotstart


class M(torch.nn.Module):
    def __init__(s, k=2.0, n=4):
        super().__init__()
        s.k = k
        s.w = torch.nn.Parameter(torch.full((n,), 2.0))
        s.register_buffer("b", torch.ones(n))
        s.act = torch.nn.Identity()

    def forward(s, x):
        return s.act(x * s.w + s.b) * s.k


@scenario
def instances():
    a, b = M(2.0), M(3.0)
    if V == 2:
        a, b = b, a
    ca, cb = torch.compile(a), torch.compile(b)
    for m, c in ((a, ca), (b, cb), (a, ca)):
        same(c(x4), m(x4))


@scenario
def module_changes():
    m = M()
    c = torch.compile(m)
    same(c(x4), m(x4))
    m.b = torch.full((4,), 5.0)
    same(c(x4), m(x4))
    m.w = torch.nn.Parameter(torch.full((4,), 7.0), requires_grad=False)
    same(c(x4), m(x4))
    m.to(torch.float64)
    same(c(x4.double()), m(x4.double()))
    m.load_state_dict(M().state_dict())
    same(c(x4.double()), m(x4.double()))
    m.k = 9.0
    same(c(x4.double()), m(x4.double()))
    m.eval()
    same(c(x4), m(x4))
    m.train()
    same(c(x4), m(x4))
    m.act = torch.nn.ReLU()
    same(c(-x4 * 9), m(-x4 * 9))
    d = copy.deepcopy(c)
    same(d(x4), m(x4))
    e = copy.deepcopy(m)
    e.k = 1.0
    same(torch.compile(e)(x4), e(x4))
    p = pickle.loads(pickle.dumps(m))
    same(torch.compile(p)(x4), m(x4))


@scenario
def inplace_compile():
    m = M()
    ref = M()
    m.compile()
    same(m(x4), ref(x4))
    m2 = M(4.0)
    m2.compile()
    same(m2(x4), M(4.0)(x4))
    same(m(x4), ref(x4))

    class O(torch.nn.Module):
        def forward(s, x):
            return x * 10

    o = O()
    o.compile()
    same(o(x4), x4 * 10)


class Ssame(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.l = torch.nn.ModuleList([M(float(i)) for i in range(3)])

    def forward(s, x):
        for l in s.l:
            x = l(x)
        return x


@scenario
def regional():
    m, r = Ssame(), Ssame()
    for i, l in enumerate(m.l):
        l.compile()
    same(m(x4), r(x4))
    n = Ssame()
    n.l[1] = torch.compile(n.l[1])
    same(torch.compile(n)(x4), r(x4))
    same(torch.compile(r)(x4), r(x4))


def fr(x):
    return x * 2.0 + 5.0


@scenario
def resets():
    c = torch.compile(fr)
    for i in range(3):
        same(c(x4), fr(x4))
        torch._dynamo.reset()
        same(c(x4), fr(x4))
        torch.compiler.reset()
        same(c(torch.ones(2)), fr(torch.ones(2)))


def fd(x):
    return x * 2.0 - 5.0


@scenario
def switching():
    c = torch.compile(fd)
    same(c(x4), fd(x4))
    hotstart.disable()
    same(c(x4), fd(x4))
    same(c(torch.ones(3)), fd(torch.ones(3)))
    same(torch.compile(fd, dynamic=False)(torch.ones(6)), fd(torch.ones(6)))
    hotstart.enable()
    hotstart.enable()
    same(c(x4), fd(x4))
    same(c(torch.ones(5, dtype=torch.float64)), fd(torch.ones(5, dtype=torch.float64)))
    same(torch.compile(fd)(x4), fd(x4))
    hotstart.save()
    with hotstart.enable():
        same(c(x4), fd(x4))
    same(c(x4), fd(x4))
    hotstart.enable()
    left = [
        k
        for k in globals()
        if k.startswith(("__compiled", "__resume", "__builtins_dict", "__import_"))
    ]


def fl(x):
    x = x * 2.0
    torch._dynamo.graph_break()
    return x + torch.ones(4)


@scenario
def globals_left():
    c = torch.compile(fl)
    same(c(x4), fl(x4))
    hotstart.save()
    hotstart.disable()
    try:
        same(c(x4), fl(x4))
    finally:
        hotstart.enable()


@scenario
def memory():
    m = M()
    c = torch.compile(m)
    same(c(x4), m(x4))
    same(c(x4), m(x4))
    hotstart.save()
    r = weakref.ref(m)
    rw = weakref.ref(m.w)
    del m, c
    gc.collect()
    gc.collect()
    assert r() is None
    assert rw() is None


def ft(x, k):
    return x * k


@scenario
def thr():
    c = torch.compile(ft)
    errs = []

    def go(i):
        try:
            for j in range(3):
                same(c(torch.ones(4), float(i % 3 + 2)), torch.ones(4) * float(i % 3 + 2))
        except BaseException as e:
            errs.append(repr(e)[:300])

    ts = [threading.Thread(target=go, args=(i,)) for i in range(6)]
    [a.start() for a in ts]
    [a.join() for a in ts]
    assert not errs, "ERR " + str(errs[:2])


def ff(x):
    return x * 2.0 + 9.0


@scenario
def forks():
    c = torch.compile(ff)
    same(c(x4), ff(x4))
    pid = os.fork()
    if pid == 0:
        try:
            same(c(x4), ff(x4))
            same(torch.compile(fr)(x4), fr(x4))
            os._exit(0)
        except BaseException as e:
            print(e)
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0, "ERR fork child"


from torch.utils.checkpoint import checkpoint


def fck(x):
    return checkpoint(lambda y: (y * 2.0).sin(), x, use_reentrant=False)


@scenario
def ckpt():
    a = torch.ones(4, requires_grad=True)
    b = torch.ones(4, requires_grad=True)
    torch.compile(fck)(a).sum().backward()
    fck(b).sum().backward()
    same(a.grad, b.grad)


def fb(x):
    return x * x * 2.0


@scenario
def bwd_after():
    c = torch.compile(fb)
    a = torch.ones(4, requires_grad=True)
    o = c(a)
    hotstart.save()
    torch._dynamo.reset()
    o.sum().backward()
    same(a.grad, x4 * 4)
    a = torch.ones(4, requires_grad=True)
    c(a).sum().backward()
    same(a.grad, x4 * 4)


@scenario
def artifacts():
    c = torch.compile(fr)
    same(c(x4), fr(x4))
    r = torch.compiler.save_cache_artifacts()
    if r:
        torch.compiler.load_cache_artifacts(r[0])
    same(c(x4), fr(x4))


def fman(x):
    return x * 2.0 + 4.0


@scenario
def manual_pkg():
    from torch._dynamo.package import CompilePackage, DiskDynamoStore

    p = CompilePackage(fman)
    c = torch._dynamo.optimize("inductor", package=p)(fman)
    same(c(x4), fman(x4))
    st = DiskDynamoStore(tempfile.mkdtemp())
    st.save_package(p, "k")
    torch._dynamo.reset()
    p2, b = st.load_package(fman, "k")
    c2 = torch._dynamo.optimize("inductor", package=p2)(fman)
    p2.install(b)
    same(c2(x4), fman(x4))
    same(c2(torch.ones(7)), fman(torch.ones(7)))


class Lz(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.l = torch.nn.LazyLinear(4)

    def forward(s, x):
        return s.l(x) * 0


@scenario
def lazy():
    m = Lz()
    c = torch.compile(m)
    same(c(torch.ones(2, 4)), torch.zeros(2, 4) + 0 * m(torch.ones(2, 4)))


class Hk(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.l = torch.nn.Identity()

    def forward(s, x):
        return s.l(x) * 2.0


@scenario
def hooks_later():
    m = Hk()
    c = torch.compile(m)
    if V == 2:
        m.l.register_forward_hook(lambda mod, a, o: o * 3.0)
    same(c(x4), m(x4))


class Pickled(torch.nn.Module):
    def forward(self, x):
        return x * 2.0


@scenario
def copies_of_a_compiled_module():
    c = torch.compile(Pickled())
    same(c(x4), x4 * 2)
    copies = [pickle.loads(pickle.dumps(c)), copy.copy(c), copy.deepcopy(c)]
    for d in copies:
        same(d(x4), x4 * 2)
    torch._dynamo.reset()
    for d in copies:
        same(d(x4), x4 * 2)


main()
