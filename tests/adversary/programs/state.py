"""The state of the process, shapes, inputs, graph breaks: other ones at load than at save."""

# ruff: noqa
import contextlib

import torch
from common import K, V, main, same, same_error, scenario, x4


def ctx(name):
    return {
        "none": contextlib.nullcontext,
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
        "amp": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        "grad": torch.enable_grad,
    }[name]()


A, B = ("none", "no_grad") if V == 1 else ("no_grad", "none")


def f_ng(x):
    return x * 2.0


def f_ng2(x):
    return x * 2.0 + (1.0 if torch.is_grad_enabled() else 0.0)


@scenario
def nograd():
    x = torch.ones(4, requires_grad=True)
    for f in (f_ng, f_ng2):
        c = torch.compile(f)
        with ctx(A):
            same(c(x), f(x), "A")
    for f in (f_ng, f_ng2):
        c = torch.compile(f)
        with ctx(B):
            same(c(x), f(x), "B")


def f_inf(x):
    return x * 2.0


@scenario
def inference():
    c = torch.compile(f_inf)
    order = ["inference", "none"] if V == 1 else ["none", "inference"]
    for o in order:
        with ctx(o):
            a, b = c(torch.ones(4)), f_inf(torch.ones(4))
            same(a, b)
            assert a.is_inference() == b.is_inference(), f"WRONG inference {o} {a.is_inference()}"
    with torch.inference_mode():
        xi = torch.ones(4)
    a, b = c(xi), f_inf(xi)
    assert a.is_inference() == b.is_inference(), "WRONG inf tensor"


def f_amp(x, y):
    return x @ y


@scenario
def amp():
    c = torch.compile(f_amp)
    x = torch.ones(4, 4)
    for o in ["amp", "none"] if V == 1 else ["none", "amp"]:
        with ctx(o):
            same(c(x, x), f_amp(x, x), o)


def f_dd(x):
    return x + torch.zeros(4) * 2.0


@scenario
def defdtype():
    c = torch.compile(f_dd)
    for d in [torch.float32] if V == 1 else [torch.float64, torch.float32]:
        torch.set_default_dtype(d)
        try:
            same(c(x4), f_dd(x4), str(d))
        finally:
            torch.set_default_dtype(torch.float32)


def f_ddev(x):
    return torch.zeros(4) + 2.0


@scenario
def defdevice():
    c = torch.compile(f_ddev)
    if V == 2:
        with torch.device("meta"):
            a = c(x4)
            assert a.device.type == "meta", f"WRONG {a.device}"
    same(c(x4), f_ddev(x4))


def f_det(x):
    return x * (3.0 if torch.are_deterministic_algorithms_enabled() else 2.0)


@scenario
def determ():
    c = torch.compile(f_det)
    if V == 2:
        torch.use_deterministic_algorithms(True)
    try:
        same(c(x4), f_det(x4))
    finally:
        torch.use_deterministic_algorithms(False)


def f_thr(x):
    return x * float(torch.get_num_threads())


@scenario
def threads():
    c = torch.compile(f_thr)
    n = torch.get_num_threads()
    if V == 2:
        torch.set_num_threads(2)
    try:
        same(c(x4), f_thr(x4))
    finally:
        torch.set_num_threads(n)


def f_prec(x):
    return x * (3.0 if torch.get_float32_matmul_precision() == "high" else 2.0)


@scenario
def precision():
    c = torch.compile(f_prec)
    if V == 2:
        torch.set_float32_matmul_precision("high")
    try:
        same(c(x4), f_prec(x4))
    finally:
        torch.set_float32_matmul_precision("highest")


def f_train(x, w):
    return ((x * w) * 2.0).sum()


@scenario
def training():
    c = torch.compile(f_train)
    for f, out in ((c, []), (f_train, [])):
        pass
    r = []
    for f in (c, f_train):
        x = torch.ones(4, requires_grad=True)
        w = torch.full((4,), 3.0, requires_grad=True)
        for _ in range(2):
            f(x, w).backward()
        r.append((x.grad, w.grad))
    same(*r)
    x = torch.ones(4, requires_grad=(V == 1))
    w = torch.full((4,), 3.0, requires_grad=(V == 2))
    same(c(x, w), f_train(x, w))


def f_vm(x):
    return torch.vmap(lambda y: y * 2.0)(x)


@scenario
def vmap():
    same(torch.compile(f_vm)(torch.ones(3, 4)), f_vm(torch.ones(3, 4)))

    def h(x):
        return torch.compile(f_ng)(x).sum()

    same(torch.func.grad(h)(x4), torch.full((4,), 2.0))


from torch.overrides import TorchFunctionMode


class TM(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.mul, torch.mul):
            return func(args[0], K)
        return func(*args, **(kwargs or {}))


def f_tfm(x):
    return torch.mul(x, 1.5)


@scenario
def tfmode():
    c = torch.compile(f_tfm)
    with TM():
        same(c(x4), f_tfm(x4))
    same(c(x4), f_tfm(x4))


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        r = super().__torch_function__(func, types, args, kwargs or {})
        return r


def f_sub(x):
    return x * 2.0


@scenario
def subclass():
    c = torch.compile(f_sub)
    a = c(torch.ones(4).as_subclass(Sub))
    assert type(a) is Sub, "WRONG type"
    b = c(torch.ones(4))
    assert type(b) is torch.Tensor, "WRONG type"
    p = c(torch.nn.Parameter(torch.ones(4)))
    assert type(p) is torch.Tensor, "WRONG"


def f_alias(a, b):
    a.add_(1.0)
    return a + b, a, b.view(2, 2)


@scenario
def aliasing():
    c = torch.compile(f_alias)
    for order in ("same", "diff") if V == 1 else ("diff", "same"):
        r = []
        for f in (c, f_alias):
            a = torch.ones(4)
            b = a if order == "same" else torch.ones(4) if order == "diff" else a.view(4)
            o = f(a, b)
            assert o[1] is a, "WRONG identity"
            r.append((o, a, b))
        same(*r, order)


def f_in(x, o):
    return x * (
        o["a"]
        if isinstance(o, dict)
        else o[0]
        if isinstance(o, (tuple, list))
        else 5.0
        if o is None
        else o
    )


@scenario
def inputs():
    c = torch.compile(f_in)
    ins = [
        {"a": 2.0},
        (3.0,),
        [2.0],
        None,
        3,
        3.0,
        True,
        torch.ones(4),
        2 + 1j,
        float("inf"),
        float("nan"),
        2**62,
        -0.0,
        torch.ones(0),
        torch.tensor(3),
    ]
    if V == 2:
        ins = ins[::-1]
    with torch._dynamo.config.patch(recompile_limit=50):
        for i in ins:
            xx = torch.ones(0) if isinstance(i, torch.Tensor) and i.numel() == 0 else x4
            same(c(xx, i), f_in(xx, i), str(i))


def f_dyn(x):
    return x * 2.0 + x.shape[0]


@scenario
def dyn():
    c = torch.compile(f_dyn)
    for n in (4, 5, 6) if V == 1 else (7, 4, 1, 0, 5, 2):
        same(c(torch.ones(n)), f_dyn(torch.ones(n)), str(n))
    d = torch.compile(f_dyn, dynamic=True)
    for n in (3, 9, 1):
        same(d(torch.ones(n)), f_dyn(torch.ones(n)), str(n))


def f_md(x):
    return x * 2.0 + x.shape[0]


@scenario
def markdyn():
    c = torch.compile(f_md)
    for n in (4, 8):
        x = torch.ones(n)
        torch._dynamo.mark_dynamic(x, 0)
        same(c(x), f_md(x))
    same(c(torch.ones(5)), f_md(torch.ones(5)))


def f_mu(x):
    return x * 2.0


@scenario
def markunb():
    c = torch.compile(f_mu)
    for n in (4, 1, 0):
        x = torch.ones(n)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        same(c(x), f_mu(x))


def f_gb(x, k):
    with torch.no_grad():
        y = x * 2.0
        torch._dynamo.graph_break()
        y = y + 1.0

    def inner(z):
        return z * k

    try:
        print(end="")
        y = inner(y)
        torch._dynamo.graph_break()
        raise ValueError("x")
    except ValueError:
        y = y + 1
    for v in (lambda: (yield 2.0))():
        y = y * v
    return y


@scenario
def breaks():
    c = torch.compile(f_gb)
    same(c(x4, K), f_gb(x4, K))
    same(c(x4, 5.0), f_gb(x4, 5.0))
    same(c(torch.ones(4, requires_grad=True), K), f_gb(torch.ones(4, requires_grad=True), K))


def rec(x, n):
    if n == 0:
        return x * 2.0
    torch._dynamo.graph_break()
    return rec(x + 1, n - 1) + n


@scenario
def recursion():
    c = torch.compile(rec)
    same(c(x4, 3), rec(x4, 3))


def f_exc(x, bad):
    y = x * 2.0
    if bad:
        raise KeyError("u")
    return y


@scenario
def exceptions():
    c = torch.compile(f_exc)
    same_error(lambda: c(x4, True), lambda: f_exc(x4, True))
    same(c(x4, False), x4 * 2)
    same_error(lambda: c(x4, True), lambda: f_exc(x4, True))
    same_error(lambda: c(), lambda: f_exc())


def gen(x):
    yield x * 2.0
    yield x * 3.0


# No async functions here: compiling one overruns a buffer in torch 2.13 itself (seen without hotstart
# under PYTHONMALLOC=debug), and the process may die of it later.
@scenario
def gens():
    same(list(torch.compile(gen)(x4)), list(gen(x4)))


def f_attr(x):
    return x * x._scale


@scenario
def tattr():
    c = torch.compile(f_attr)
    for s in (2, 3) if V == 1 else (3, 4, 2):
        x = torch.ones(4)
        x._scale = s
        same(c(x), f_attr(x), str(s))


main()
