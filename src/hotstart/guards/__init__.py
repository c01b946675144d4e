"""Guards of a package: saved with proof of every object they name, built again at load."""
