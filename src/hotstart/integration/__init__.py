"""hotstart in a running torch: the only place that changes anything of torch's."""
