"""Measuring a warm load in fresh processes: torch's own package beside hotstart.

`child` is the process that is measured, `measure` starts such processes and collects what they
say, `table` prints it. The demo and `benchmarks/warm_load.py` are thin faces of these. Nothing but
`child` imports torch.
"""
