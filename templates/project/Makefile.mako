# Each target runs one or two udogen commands, which also work without make.  This file is yours.
UDOGEN ?= udogen

.PHONY: build test run report clean
build:  # packages from the configs, compiled
% for line in build:
	$(UDOGEN) ${line}
% endfor
test:  # every op against its reference, on all backends of this machine
	$(UDOGEN) test .
run: build  # one execution of ${op} on random numbers
	$(UDOGEN) ${run}
report:  # the tests as a page: report.html
	$(UDOGEN) test . --html report.html
clean:
% for command in clean:
	${command}
% endfor
