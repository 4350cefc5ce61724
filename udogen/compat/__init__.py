"""The vendor's Python modules that other programs import, provided by udogen if the vendor's are not installed."""
