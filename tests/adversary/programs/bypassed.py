"""What is compiled without a package must keep its guards."""

import torch
from common import main, same, scenario

x = -torch.ones(4)


class Scale:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


class Shift:
    def __call__(self, x):
        return x + 1


@scenario
def two_builtins():
    same(torch.compile(torch.sin)(x), x.sin())
    same(torch.compile(torch.relu)(x), x.relu())


@scenario
def callable_objects():
    same(torch.compile(Scale(2.0))(x), x * 2)
    same(torch.compile(Scale(3.0))(x), x * 3)
    same(torch.compile(Shift())(x), x + 1)


@scenario
def backend_without_a_name():
    h = [lambda x: x * 2.0]

    def f(x):
        return h[0](x)

    c = torch.compile(f, backend=lambda gm, inputs: gm.forward)
    same(c(x), x * 2)
    h[0] = lambda x: x * 3.0
    same(c(x), x * 3)


main()
