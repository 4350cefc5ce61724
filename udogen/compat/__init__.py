"""The vendor's Python modules that other programs import, provided by udogen where the vendor's are not installed."""
