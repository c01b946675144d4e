"""hotstart: what ``torch.compile`` compiled once starts warm, anywhere."""

__version__ = "0.1.0"
