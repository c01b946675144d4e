"""Package files that are not what their name says, and folders that cannot hold any."""

import glob
import os
import pickle
import shutil
import tempfile

import torch
from common import graphs, main, messages, same, scenario, x4
from torch._dynamo.utils import counters

import hotstart

root = tempfile.mkdtemp()
good = os.path.join(root, "good")


def double(x):
    return x * 2.0


def triple(x):
    return x * 3.0


def start(folder):
    """As a new process with the store in ``folder``."""
    hotstart.disable()
    torch._dynamo.reset()
    hotstart.enable(folder)
    counters.clear()
    messages.clear()


def run():
    same(torch.compile(double)(x4), x4 * 2)
    return graphs()


def fill():
    start(good)
    run()
    hotstart.save()


@scenario
def packages_are_found():
    fill()
    start(good)
    assert run() == 0


@scenario
def damaged_files():
    fill()
    [entry] = glob.glob(f"{good}/*/entry")
    with open(entry, "rb") as file:
        data = file.read()
    flipped = [data[:i] + bytes([data[i] ^ 255]) + data[i + 1 :] for i in range(0, 40000, 9000)]
    for i, damaged in enumerate(
        [b"", os.urandom(5000), data[:-1], pickle.dumps({"a": 1}), b"\x80\x04garbage", *flipped]
    ):
        folder = os.path.join(root, f"damaged{i}")
        shutil.copytree(good, folder)
        with open(entry.replace(good, folder), "wb") as file:
            file.write(damaged)
        start(folder)
        assert run() == 1, i
        assert len(messages) == 1, messages
        assert hotstart.save() == 1
        start(folder)
        assert run() == 0, i


@scenario
def another_functions_package():
    fill()
    folder = os.path.join(root, "renamed")
    start(folder)
    same(torch.compile(triple)(x4), x4 * 3)
    hotstart.save()
    [theirs] = glob.glob(f"{folder}/*/entry")
    [ours] = glob.glob(f"{good}/*/entry")
    os.rename(os.path.dirname(theirs), os.path.dirname(ours.replace(good, folder)))
    start(folder)
    assert run() == 1
    assert len(messages) == 1, messages


@scenario
def folders_that_hold_nothing():
    file = os.path.join(root, "file")
    open(file, "w").close()
    for folder in (file, os.path.join(file, "below"), "/proc/hotstart"):
        start(folder)
        run()
        assert hotstart.save() == 0
        assert len(messages) == 1, messages


main()
