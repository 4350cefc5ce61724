"""Names that other people's programs import, answered by udogen where the vendor's own Python is not there."""
