${plan.title}

Written by `udogen script`.  Run it with

    python3 run.py      (Python 3.8 or later, without other packages; --help lists its options)

The client is called so, where it runs:

    ${plan.command}

run.py           on this machine: find the device, push what it lacks, run, bring outputs back, compare
device.sh        where the client runs: the environment, and the command
plan.json        all of it as data
libs/            the packages' libraries, by processor
models/          what is run
% if plan.has_references:
inputs/, references/   by sample, as raw bytes
% else:
inputs/          by sample, as raw bytes
% endif
outputs/         a folder for each run

% if plan.hexagon:
The version of Hexagon is what the device reports (ro.soc.model, /sys/devices/soc0); --arch vNN says another one.
Here are libraries for ${plan.archs}.  The library for ARM is registered by its full path for CPU, that for
Hexagon by its name alone for HTP: the loader of the DSP finds it through ADSP_LIBRARY_PATH.

% endif
Nothing of Qualcomm's is in this folder.  When it runs, its programs and libraries are looked for in the folders of
UDOGEN_VENDOR_DIR, in ${plan.root}, and then on the device, in UDOGEN_DEVICE_DIR and where its loaders look.
% if plan.not_local:

What was pushed stays on the device, by checksum, so that it is pushed once; `run.py --clean` removes it.
% endif
% if plan.proves:

The packages count their executions (UDOGEN_PROVE): a run in which our kernels had no part is no success.
% endif
% for note in plan.notes:

Note: ${note}.
% endfor
