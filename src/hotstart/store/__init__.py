"""Where packages are kept: in memory, or as one file each."""
