"""JSON and TOML: text -> values with their lines -> values of types that hints name; all faults are collected."""
