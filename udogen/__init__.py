"""udogen: from one description of a custom operation to op packages for every Qualcomm backend."""

__version__ = "0.1.0"
