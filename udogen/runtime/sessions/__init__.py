"""Sessions: which context runs on which HTP device, within what one may map, and how weights lie there."""
