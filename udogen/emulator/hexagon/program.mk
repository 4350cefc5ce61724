# Read after the Makefile of a package, whose variables give its sources:
#   make -f Makefile -f program.mk udogen_program TARGET=… CXX=… LINK=… LIBRARY=… QNN_SDK_ROOT=
# makes one program of the package and of the harness that LINK names, by the package's own rules.
.PHONY: udogen_program
udogen_program:
	@+$(MAKE) --no-print-directory -f $(or $(LAYOUT_COMMON),makefiles/linux.mk)
