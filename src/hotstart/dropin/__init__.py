"""The pieces of the drop-in for ``torch._dynamo.package``, one job each; `hotstart.package` is
the face that puts them together under torch's names."""
