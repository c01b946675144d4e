"""Models to try hotstart on; plain torch modules, nothing is downloaded."""
