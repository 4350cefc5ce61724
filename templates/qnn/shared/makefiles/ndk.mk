# Auto-generated part of every op package that udogen generates for Android with ndk-build; regenerating rewrites this file.
# ndk-build compares file times, and ignores changed flags in the environment.  So the checksums of files and the flags
# are compared with those of the last call: a change without a newer file time makes it compile everything (-B).
# A launcher (LAUNCHER, or UDOGEN_LAUNCHER of the environment) is its NDK_CCACHE; another one makes nothing stale.
# $(1): its folder of objects; $(2): its arguments
LAUNCHER ?= $(value UDOGEN_LAUNCHER)
NDK_LAUNCHER = $(if $(LAUNCHER),'NDK_CCACHE=$(subst ','\'',$(foreach word,$(LAUNCHER),'$(subst ','\'',$(word))'))')
NDK_FLAGS = $(UDO_PROVE) $(EXTRA_CXXFLAGS) $(EXTRA_LDFLAGS) $(CL_LIBRARY_PATH) $(QNN_SDK_ROOT) $(SNPE_UDO_ROOT) $(SNPE_ROOT) $(ANDROID_NDK_ROOT)
ndk_build = mkdir -p $(1) && \
  look() { find $(wildcard src include jni makefiles .sdk Makefile user.mk) $(if $(QNN_SDK_ROOT),"$(QNN_SDK_ROOT)/include/QNN") -type f -print0 | \
           LC_ALL=C sort -z | xargs -0 sha256sum; printf '%64s  %s\n' flags '$(subst ','\'',$(NDK_FLAGS))'; } && \
  look > $(1)/seen.new && \
  all="$$(if [ -e $(1)/seen ]; then cat $(1)/seen $(1)/seen.new | LC_ALL=C sort | uniq -u | cut -c67- | \
          while read -r name; do [ "$$name" -nt $(1)/seen ] || echo -B; done | head -n 1; elif [ -e $(1)/local ]; then echo -B; fi)" && \
  { "$(ANDROID_NDK_ROOT)/ndk-build" $(2) $(NDK_LAUNCHER) $$all; code=$$?; look > $(1)/seen; cmp -s $(1)/seen.new $(1)/seen || rm $(1)/seen; exit $$code; }
