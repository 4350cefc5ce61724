"""Configs: XML OpDef and JSON UDO, read into the model of an op package, checked, and written."""
