"""Sessions: contexts on HTP devices, within the limit of mapped memory."""
