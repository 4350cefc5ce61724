#!/bin/sh
# ${title}: the part that runs on the machine of the client; run.py calls it.
#
#   device.sh start RUN ARCH DEVICES VENDOR WRAP
#   device.sh stop RUN
#
# RUN is the folder of this run; its file `links` lists the files to link into it.  Outputs of the client are in RUN/out.

set -u

<%text>
run=$2
case $1 in
  stop)
    # End the processes of the client; then `start` ends.
    [ -f "$run/pids" ] && while read -r pid; do kill "$pid" 2>/dev/null; done <"$run/pids"
    exit 0
    ;;
  start) arch=$3 devices=$4 vendor=$5 wrap=$6 ;;
  *) exit 2 ;;
esac

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

# A process that becomes the client; its argument is the number of the device.
# shellcheck disable=SC2034 # some variables are not used by every client
one() {
  number=$1 chosen=$1
  [ "$devices" -gt 1 ] || chosen=-
  out=$run/out/${label}$number
  mkdir -p "$out"
% if proves:
  export UDOGEN_PROVE="$out/executions.txt"
% endif
% if extensions:
  cat >"config_$number.json" <<END
{"backend_extensions": {"shared_library_path": "libQnnHtpNetRunExtensions.so", "config_file_path": "htp_$number.json"}}
END
  cat >"htp_$number.json" <<END
{"devices": [{"device_id": $number, "dsp_arch": "$arch", "pd_session": "${pd_session}"}]}
END
% endif
% if cases:
  # A folder and a process for each case; what the client prints is in its `log`.
  trap 'kill -9 "$client"' TERM INT HUP
  tar -xf cases.tar && cd cases || exit 5
  for case in *; do
    out=$run/out/${label}$number/$case
    mkdir -p "$out"
    cd "$run/cases/$case" || exit 5
    # shellcheck disable=SC2086 # several words: `taskset f0`
    $wrap ${words} >"$out/log" 2>&1 &
    client=$!
    wait "$client"
    code=$?
    [ "$code" -ne 143 ] || exit 143
    echo "$code" >"$out/code"
    echo "case $case"
  done
% else:
  # shellcheck disable=SC2086 # several words: `taskset f0`
  exec $wrap ${words}
% endif
}

<%text>
: >pids
trap 'while read -r pid; do kill "$pid" 2>/dev/null; done <pids' INT TERM HUP
mkdir -p out
number=0
while [ "$number" -lt "$devices" ]; do
  (one "$number") </dev/null &
  echo "$!" >>pids
  number=$((number + 1))
done

# One line for each device: its name, and the exit code of its client.
number=0
worst=0
while read -r pid; do
  wait "$pid"
  code=$?
</%text>\
  echo "${label}$number $code" >>out/status
<%text>
  [ "$code" -eq 0 ] || worst=$code
  number=$((number + 1))
done <pids
: "$arch"
exit "$worst"
</%text>\
