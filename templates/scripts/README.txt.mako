${title}

Written by `udogen script`.  Run it with

    python3 run.py      (Python 3.8 or later, without other packages; --help lists its options)

The command of the client:

    ${command}

run.py           on this machine: find the device, push what it lacks, run, fetch outputs, compare
device.sh        where the client runs: the environment, and the command
plan.json        everything as data
libs/            the packages' libraries, by processor
models/          what is run
% if has_references:
inputs/, references/   by sample, as raw bytes
% else:
inputs/          by sample, as raw bytes
% endif
outputs/         a folder for each run

% if hexagon:
The device reports its Hexagon version (ro.soc.model, /sys/devices/soc0); --arch vNN overrides it.  The folder has
libraries for ${archs}.  The ARM library is registered by its full path for CPU, the Hexagon library
by its file name for HTP: the loader of the DSP finds it through ADSP_LIBRARY_PATH.

% endif
No file of Qualcomm's is in this folder.  run.py searches for its programs and libraries in the folders of
UDOGEN_VENDOR_DIR, in ${root}, and then on the device, in UDOGEN_DEVICE_DIR and the search paths of its loaders.
% if not_local:

Pushed files stay on the device, by checksum, so that each is pushed once; `run.py --clean` removes them.
% endif
% if proves:

The packages count their executions (UDOGEN_PROVE): a run in which their kernels were not executed fails.
% endif
% for note in notes:

Note: ${note}.
% endfor
