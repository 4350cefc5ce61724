#!/bin/sh
# ${title}: the part that runs on the machine of the client; run.py calls it.
#
#   device.sh RUN VENDOR
#
# RUN is the folder of this run; its file `links` lists the files to link into it.  Outputs of the client are in RUN/out.

set -u

<%text>
run=$1 vendor=$2
out=$run/out
mkdir -p "$out"
cd "$run" || exit 5
# Pairs of lines: a file, and its name here.
while IFS= read -r target && IFS= read -r name; do
  case $name in */*) mkdir -p "${name%/*}" ;; esac
  ln -s -f "$target" "$name" || exit 5
done <links

export LD_LIBRARY_PATH="$run${vendor:+:$vendor}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$run${vendor:+:$vendor}:$PATH"
</%text>\
% if dsp:
# Separated by semicolons: the loader takes a list with colons as one folder.
<%text>dsp_vendor=$(printf '%s' "$vendor" | tr ':' ';')</%text>
export ADSP_LIBRARY_PATH=${dsp_path}<%text>"${dsp_vendor:+;$dsp_vendor}"</%text>
% endif
% if extensions:
cat >config.json <<END
{"backend_extensions": {"shared_library_path": "libQnnHtpNetRunExtensions.so", "config_file_path": "htp.json"}}
END
cat >htp.json <<END
{"devices": [{"device_id": 0, "dsp_arch": "${arch}", "pd_session": "unsigned"}]}
END
% endif

# run.py ends this process by its number, which ends the client.
client=
trap '[ -z "$client" ] || kill -9 "$client"; exit 143' INT TERM HUP
echo "$$" >pid
client() {
  ${words} &
  client=$!
  wait "$client"
}

% if cases:
# A folder and a process for each case; what the client prints is in its `log`.
tar -xf cases.tar && cd cases || exit 5
for case in *; do
  out=$run/out/$case
  mkdir -p "$out"
  cd "$run/cases/$case" || exit 5
  client >"$out/log" 2>&1
  echo "$?" >"$out/code"
  echo "case $case"
done
echo 0 >"$run/out/code"
% else:
client
echo "$?" >"$out/code"
% endif
