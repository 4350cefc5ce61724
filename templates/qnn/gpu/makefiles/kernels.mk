# Auto-generated part of every op package that udogen generates for the GPU backend; regenerating rewrites this file.
# Writes each file of KERNELS as a list of numbers to KERNEL_TEXTS, where C++ includes it: the text of a kernel may
# contain any character, which a string literal may not.  A missing file becomes an empty text.  Several targets may be
# built at once, by independent makes: each writes its own temporary file, and renames it when it is complete.
.PHONY: kernels FORCE_KERNELS
kernels: $(patsubst %,$(KERNEL_TEXTS)/%.inc,$(notdir $(KERNELS)))

define kernel_text
$(KERNEL_TEXTS)/$(notdir $(1)).inc: FORCE_KERNELS
	@mkdir -p $$(@D)
	@new=$$@.$$$$$$$$; \
	 { if [ -f $(1) ]; then od -An -v -tu1 $(1) | sed 's/ *\([0-9][0-9]*\)/(char)\1,/g'; fi; echo 0; } > $$$$new; \
	 if cmp -s $$$$new $$@; then rm $$$$new; else mv -f $$$$new $$@; fi
endef
$(foreach kernel,$(KERNELS),$(eval $(call kernel_text,$(kernel))))
