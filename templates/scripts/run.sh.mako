#!/bin/sh
# ${plan.title}
# Written by `udogen script`.  run.py does the same in Python; `run.sh --help` and README.txt say how they are used.

# shellcheck disable=SC2317 # functions are called by what they are given to
set -u
LC_ALL=C
export LC_ALL

client=${plan.client}
name=${plan.name}
machine=${plan.machine}
archs='${plan.archs}'
forbidden=${plan.forbidden}
devices_refused=${plan.devices_refused}
root_variable=${plan.root}

# Each calls its argument once for each row.
files() { # source, name on the device, version of Hexagon, checksum, bytes, x: a program
% for row in plan.files:
  "$1" ${row}
% endfor
}
vendors() { # name, version of Hexagon, needed, program, folders below the SDK
  :
% for row in plan.vendors:
  "$1" ${row}
% endfor
}
checks() { # sample, name, output, reference, type, tolerance: absolute, relative
  :
% for row in plan.checks:
  "$1" ${row}
% endfor
}
proofs() { # package, op
  :
% for row in plan.proofs:
  "$1" ${row}
% endfor
}
# The version of Hexagon behind what a device tells of itself.
hexagon_of() {
  case $1 in
% for told, version in plan.socs:
    ${told}) echo ${version} ;;
% endfor
    *) return 1 ;;
  esac
}

# --- the device ---------------------------------------------------------------------------------------------
% if plan.adb:
<%text>
serial=${ANDROID_SERIAL:-}
adb_() {
  if [ -n "$serial" ]; then adb -s "$serial" "$@" </dev/null; else adb "$@" </dev/null; fi
}
remote() { adb_ shell "$1"; }
push() { adb_ push "$1" "$2"; }
pull() { adb_ pull "$1" "$2"; }
reach() {
  command -v adb >/dev/null || fail 3 "adb is not on PATH" "install Android's platform tools, or add them to PATH"
  adb start-server >/dev/null 2>&1 </dev/null # or its lines are among the answers
  said=$(adb_ get-state 2>&1) || true
  case $said in
    *unauthorized*) fail 5 "the device does not trust this machine: adb says \`unauthorized\`" \
      "unlock its screen and allow USB debugging" ;;
    *"more than one"*) fail 5 "there are several devices" "choose one of \`adb devices\` with --serial, or ANDROID_SERIAL" ;;
    *offline*) fail 5 "the device is offline" "plug it in again, or \`adb reconnect\`" ;;
    *"no devices"* | *"not found"*) fail 5 "adb finds no device${serial:+ $serial}" \
      "plug it in, and allow USB debugging; \`adb devices\` lists what is there" ;;
    *"no permissions"* | *"insufficient permissions"*) fail 5 "this machine may not use the device: $said" \
      "add a udev rule for it, or restart adb as root: adb kill-server" ;;
    *device*) ;;
    *) fail 5 "adb does not reach the device: $said" "see \`adb devices\`" ;;
  esac
}
log_start() {
  adb_ logcat -v threadtime -T 1 >"$out/logcat.txt" 2>&1 &
  logger=$!
}
log_stop() {
  kill "$logger" 2>/dev/null
  wait "$logger" 2>/dev/null
  say "the device's log is in $out/logcat.txt"
}
</%text>\
% endif
% if plan.ssh:
<%text>
host=${UDOGEN_HOST:-}
port=${UDOGEN_PORT:-}
ssh_() { ssh -o BatchMode=yes -o ConnectTimeout=10 ${port:+-p "$port"} "$host" "$1"; }
# Whatever shell the user has there, sh reads the command.
remote() { ssh_ "sh -c $(quote "$1")" </dev/null; }
push() { ssh_ "sh -c $(quote "cat >$(quote "$2")")" <"$1"; }
pull() { remote "cd $(quote "$1") && tar -cf - ." | tar -xf - -C "$2"; }
reach() {
  command -v ssh >/dev/null || fail 3 "ssh is not on PATH" "install an ssh client"
  case $host in
    '') fail 2 "which host is not said" "--host USER@HOST, or UDOGEN_HOST" ;;
    -*) fail 2 "--host $host: this is no host" "--host USER@HOST" ;;
  esac
  said=$(remote true 2>&1) || fail 5 "ssh does not reach $host: $said" \
    "it must work without a password: try \`ssh -o BatchMode=yes $host true\`"
}
log_start() { logger=; }
log_stop() {
  if remote 'journalctl -k -n 300 --no-pager 2>/dev/null || dmesg | tail -n 300' >"$out/kernel.txt" 2>&1; then
    say "the last 300 lines of the device's kernel are in $out/kernel.txt"
  else
    say "note: the log of the device's kernel may not be read: $(tail -n 1 "$out/kernel.txt")"
  fi
}
</%text>\
% endif
% if plan.local:
<%text>
remote() { sh -c "$1" </dev/null; }
pull() { cp -R "$1/." "$2"; }
reach() { :; }
log_start() { :; }
log_stop() { :; }
</%text>\
% endif
<%text>
# --- words -------------------------------------------------------------------------------------------------------------

say() { printf '%s\n' "$*" >&2; }
fail() { # exit code, sentence, hints
  code=$1
  say "error: $2"
  shift 2
  for hint in "$@"; do say "  = $hint"; done
  exit "$code"
}
# One word for the shell on the other side.
quote() {
  quoted=$(printf '%sx' "$1" | sed "s/'/'\\\\''/g")
  printf "'%s'" "${quoted%x}"
}
# The answer of a short command there, in $answer; old adbs do not tell the exit code.
ask() {
  said=$(remote "( $1 ) 2>&1; echo udogen:\$?" 2>"$scratch/said" | tr -d '\r')
  case $said in
    *udogen:0) answer=${said%udogen:0} ;;
    *udogen:*) fail 5 "the device refused: $(printf '%s' "${said%udogen:*}" | tail -n 1)" "it was: $1" ;;
    *) fail 5 "the device did not answer: $said$(cat "$scratch/said")" "is it still there?" ;;
  esac
}
</%text>\

usage() {
  cat <<'END'
usage: run.sh [OPTION...]

% if plan.adb:
  --serial ID     the device, where there are several (ANDROID_SERIAL)
% endif
% if plan.ssh:
  --host HOST     where ssh goes: user@host, or a name of ssh's config (UDOGEN_HOST)
  --port N        its port (UDOGEN_PORT)
% endif
% if plan.not_local:
  --remote DIR    where things go on the device (UDOGEN_REMOTE)
% endif
% if plan.hexagon:
  --arch vNN      the version of Hexagon, where the device does not tell (UDOGEN_HTP_ARCH): ${plan.archs}
% endif
  --devices N     run on ${plan.label}0 ... at once (UDOGEN_NDEV)
  --out DIR       where outputs go (a new folder of outputs/)
  --logcat        keep the device's log
  --wrap COMMAND  what the client is run with: `taskset f0`, `strace -f` (UDOGEN_WRAP)
  --keep          leave the folder of the run on the device
  --clean         remove everything of this script from the device, and end

Environment: ${plan.root}, the vendor's SDK; UDOGEN_VENDOR_DIR, folders on this machine that are looked at before it;
UDOGEN_DEVICE_DIR, folders on the device that have the vendor's programs and libraries.

Exit codes: 0 right, 2 usage, 3 something is missing, 5 the run failed, 6 wrong numbers or our kernels did not run.
END
}

# --- what is asked for --------------------------------------------------------------------------------------

base=<%text>${UDOGEN_REMOTE:-</%text>${plan.remote}<%text>}</%text>
devices=<%text>${UDOGEN_NDEV:-</%text>${plan.devices}<%text>}</%text>
logcat=${plan.logcat}
<%text>
arch=${UDOGEN_HTP_ARCH:-}
wrap=${UDOGEN_WRAP:-}
out='' keep='' clean='' run='' logger='' runner='' vendor=''
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1

while [ $# -gt 0 ]; do
  case $1 in
    --*=*) fail 2 "there is no option $1" "values stand alone: ${1%%=*} ${1#*=}" ;;
    --serial | --host | --port | --remote | --arch | --devices | --out | --wrap)
      [ $# -ge 2 ] || fail 2 "$1: its value is missing" "see run.sh --help"
      case $1 in
</%text>\
% if plan.adb:
        --serial) serial=$2 ;;
% endif
% if plan.ssh:
        --host) host=$2 ;;
        --port) port=$2 ;;
% endif
<%text>
        --remote) base=$2 ;;
        --arch) arch=$2 ;;
        --devices) devices=$2 ;;
        --out) out=$2 ;;
        --wrap) wrap=$2 ;;
        *) fail 2 "there is no option $1" "see run.sh --help" ;;
      esac
      shift 2
      ;;
    --logcat) logcat=1 && shift ;;
    --keep) keep=1 && shift ;;
    --clean) clean=1 && shift ;;
    -h | --help) usage && exit 0 ;;
    *) fail 2 "there is no option $1" "see run.sh --help" ;;
  esac
done
case $devices in '' | *[!0-9]* | 0 | ??*[0-9]?) fail 2 "--devices $devices: this is no number" "as in --devices 2" ;; esac
if [ "$devices" -gt 1 ] && [ -n "$devices_refused" ]; then
  fail 2 "$client runs on one device: $devices_refused" "leave --devices out"
fi
[ -n "$base" ] || base=$here/.run
case $base in /*) ;; *) fail 2 "$base is not an absolute path" "--remote /data/local/tmp/udogen" ;; esac
home=$base/$name
odd=$(printf '%s' "$home" | tr -d -c "$forbidden")
[ -z "$odd" ] || fail 2 "the folder $home contains \`$odd\`, which separates things for $client and its loaders" \
  "move it with --remote (UDOGEN_REMOTE)"

# --- order -----------------------------------------------------------------------------------------------------------------

scratch=$(mktemp -d) || exit 1
finish() {
  trap '' INT TERM HUP
  if [ -n "$logger" ]; then kill "$logger" 2>/dev/null; fi
  if [ -n "$run" ] && [ -z "$keep" ]; then remote "rm -rf $(quote "$run")" >/dev/null 2>&1; fi
  rm -rf "$scratch"
}
interrupted() {
  trap '' INT TERM HUP
  say "interrupted: the client is stopped"
  if [ -n "$run" ]; then remote "sh $(quote "$script") stop $(quote "$run")" >/dev/null 2>&1; fi
  # It ends with the client; where the device is gone, it does not.
  seconds=0
  while [ -n "$runner" ] && kill -0 "$runner" 2>/dev/null && [ "$seconds" -lt 10 ]; do
    sleep 1
    seconds=$((seconds + 1))
  done
  if [ -n "$runner" ]; then kill "$runner" 2>/dev/null; fi
  exit 130
}
trap finish EXIT
trap interrupted INT TERM HUP

reach
if [ -n "$clean" ]; then
  ask "rm -rf $(quote "$home")"
  say "$home is removed"
  exit 0
fi

# --- which libraries ----------------------------------------------------------------------------------------

ask 'uname -m'
is=$(printf '%s' "$answer" | tail -n 1)
case $is in arm64 | armv8*) is=aarch64 ;; esac
[ "$is" = "$machine" ] || fail 5 "this is for $machine, and the device is $is" \
  "write the script for it: udogen script --device, --target"

if [ -n "$archs" ]; then
  if [ -z "$arch" ]; then
    ask 'getprop ro.soc.model; getprop ro.board.platform; cat /sys/devices/soc0/machine /sys/devices/soc0/soc_id; true'
    printf '%s\n' "$answer" | tr '[:lower:]' '[:upper:]' | tr -d ' ' | sed 's/-.*//; /:/d; /^$/d' >"$scratch/told"
    while read -r told; do
      [ -n "$arch" ] || arch=$(hexagon_of "$told")
    done <"$scratch/told"
    [ -n "$arch" ] || fail 5 "the version of Hexagon is not known: the device tells $(tr '\n' ' ' <"$scratch/told")" \
      "say it with --arch, or UDOGEN_HTP_ARCH: $archs"
  fi
  case " $archs " in
    *" $arch "*) ;;
    *) fail 5 "the device has Hexagon $arch, and this script has libraries for $archs" \
      "udogen build htp_$arch, and write the script again" ;;
  esac
  say "Hexagon $arch"
fi

# --- what the vendor has ------------------------------------------------------------------------------------

mine() { [ -z "$1" ] || [ "$1" = "$arch" ]; }
: >"$scratch/found"
: >"$scratch/wanted"
eval "root=\${$root_variable:-}"
[ -n "$root" ] || root=${QNN_SDK_ROOT:-}
split() { printf '%s\n' "$1" | tr ':' '\n'; }
find_vendor() { # name, arch, needed, program, folders
  mine "$2" || return 0
  split "${UDOGEN_VENDOR_DIR:-}" >"$scratch/places"
  if [ -n "$root" ]; then split "$5" | sed "s|^|$(printf '%s' "$root" | sed 's/[&|\\]/\\&/g')/|" >>"$scratch/places"; fi
  if [ -n "$wheel" ]; then printf '%s\n' "$wheel" >>"$scratch/places"; fi
  while IFS= read -r place; do
    if [ -n "$place" ] && [ -f "$place/$1" ]; then
      printf '%s\n%s\n%s\n' "$place/$1" "$1" "${4:+x}" >>"$scratch/found"
      return 0
    fi
  done <"$scratch/places"
  printf '%s\n%s\n%s\n' "$1" "$3" "$4" >>"$scratch/wanted"
}
wheel=
</%text>\
% if plan.local:
<%text>wheel=$(python3 -c 'import importlib.util as u; s = u.find_spec("onnxruntime_qnn"); print(s.submodule_search_locations[0] if s else "")' \
  2>/dev/null)</%text>
% endif
<%text>
vendors find_vendor

# What is not here may be on the device: in folders that are said, or where its loaders look.
if [ -s "$scratch/wanted" ]; then
  command="d=$(quote "${UDOGEN_DEVICE_DIR:-}"); IFS=:; for f in"
  while IFS= read -r file && IFS= read -r needed && IFS= read -r program; do
    command="$command $(quote "$file")"
  done <"$scratch/wanted"
  command="$command; do for p in \$d \$PATH \$LD_LIBRARY_PATH /vendor/lib64 /system/lib64 /system_ext/lib64 /usr/lib"
  command="$command /usr/lib64 /usr/lib/aarch64-linux-gnu /usr/local/lib /vendor/lib/rfsa/adsp /usr/lib/rfsa/adsp"
  command="$command /vendor/dsp/cdsp /usr/lib/dsp /dsp; do [ -f \"\$p/\$f\" ] && echo \"there:\$f\" && break; done; done; true"
  ask "$command"
  printf '%s\n' "$answer" >"$scratch/there"
  missing=
  while IFS= read -r file && IFS= read -r needed && IFS= read -r program; do
    if [ -n "$needed$program" ] && ! grep -q -x -F "there:$file" "$scratch/there"; then
      missing="$missing $file"
    fi
  done <"$scratch/wanted"
  if [ -n "$missing" ]; then
</%text>\
% if plan.local:
<%text>    fail 3 "the vendor's$missing: not on this machine" \
      "set $root_variable to the SDK${root:+ (it is $root)}, or UDOGEN_VENDOR_DIR to a folder that has them" \
      "or put the Python first on PATH that has onnxruntime-qnn (2.3.0 has libQnnCpu.so)"</%text>
% endif
% if plan.not_local:
<%text>    fail 3 "the vendor's$missing: neither here nor on the device" \
      "set $root_variable to the SDK${root:+ (it is $root)}, or UDOGEN_VENDOR_DIR to a folder that has them" \
      "or, where the device has them, set UDOGEN_DEVICE_DIR to its folder there"</%text>
% endif
<%text>  fi
  vendor=${UDOGEN_DEVICE_DIR:-}
fi

# --- what goes to the device --------------------------------------------------------------------------------

cache=$home/cache
# A number for the run, which nobody else has.
# shellcheck disable=SC2016 # the device's shell expands it
number='n=1 && while ! mkdir $n 2>/dev/null; do n=$((n + 1)); [ $n -lt 99999 ] || exit 1; done; echo $n'
ask "umask 022; mkdir -p $(quote "$cache") $(quote "$home/runs") && cd $(quote "$home/runs") && [ -w . ] && $number"
run=$home/runs/$(printf '%s' "$answer" | tail -n 1 | tr -d -c '0-9')

sum() {
  if command -v sha256sum >/dev/null; then sha256sum <"$1" | cut -c 1-32
  elif command -v shasum >/dev/null; then shasum -a 256 <"$1" | cut -c 1-32
  else cksum <"$1" | tr ' ' '-'; fi
}
: >"$scratch/links"
: >"$scratch/push"
# A file: source, its name there, checksum, bytes, x: a program.
take() {
</%text>\
% if plan.local:
<%text>  printf '%s\n%s\n' "$1" "$2" >>"$scratch/links"</%text>
% endif
% if plan.not_local:
<%text>  printf '%s\n%s\n' "$cache/$3" "$2" >>"$scratch/links"
  printf '%s\n%s\n%s\n%s\n' "$1" "$3" "$4" "$5" >>"$scratch/push"</%text>
% endif
<%text>}
take_ours() { # source, name, arch, checksum, bytes, program
  mine "$3" || return 0
  take "$here/$1" "$2" "$4" "$5" "$6"
}
files take_ours
while IFS= read -r file && IFS= read -r called && IFS= read -r program; do
</%text>\
% if plan.local:
<%text>  # Where it lies: such libraries find others beside them.
  vendor=${vendor:+$vendor:}${file%/*}
  : "$called" "$program"</%text>
% endif
% if plan.not_local:
<%text>  take "$file" "$called" "$(sum "$file")" "$(($(wc -c <"$file")))" "$program"</%text>
% endif
<%text>done <"$scratch/found"
</%text>\
% if plan.local:
script=<%text>$here/device.sh
cp "$scratch/links" "$run/links" || exit 5</%text>
% endif
% if plan.not_local:
<%text>
script=$run/device.sh
have() { grep -q -x -F "$1" "$scratch/have"; }
ask "cd $(quote "$cache") && ls"
printf '%s\n' "$answer" >"$scratch/have"
pushed=0 kept=0
while IFS= read -r file && IFS= read -r key && IFS= read -r bytes && IFS= read -r program; do
  if have "$key"; then
    kept=$((kept + 1))
    continue
  fi
  case $program in x) mode=755 ;; *) mode=644 ;; esac
  say "push ${file##*/} ($bytes bytes)"
  fresh=$run/fresh
  push "$file" "$fresh" >"$scratch/said" 2>&1 || fail 5 "$file was not pushed: $(tail -n 1 "$scratch/said")" \
    "is the device full? run.sh --clean removes what was pushed"
  # Whole or not at all, also where two runs push the same.
  whole="[ \$(wc -c <$(quote "$fresh")) -eq $bytes ] || { echo it arrived incomplete; exit 1; }"
  ask "$whole; chmod $mode $(quote "$fresh") && mv -f $(quote "$fresh") $(quote "$cache/$key")"
  printf '%s\n' "$key" >>"$scratch/have"
  pushed=$((pushed + 1))
done <"$scratch/push"
say "$pushed files pushed, $kept were there"
for file in "$here/device.sh" "$scratch/links"; do
  push "$file" "$run/${file##*/}" >"$scratch/said" 2>&1 || fail 5 "$file was not pushed: $(tail -n 1 "$scratch/said")"
done
</%text>\
% endif
<%text>
# --- run -----------------------------------------------------------------------------------------------------------------------

if [ -z "$out" ]; then
  mkdir -p "$here/outputs" || exit 5
  number=1
  while ! mkdir "$here/outputs/$(printf '%03d' "$number")" 2>/dev/null; do
    number=$((number + 1))
    [ "$number" -lt 99999 ] || fail 5 "$here/outputs cannot be written" "--out DIR"
  done
  out=$here/outputs/$(printf '%03d' "$number")
elif [ -d "$out" ] && [ -n "$(ls -A "$out")" ]; then
  fail 2 "$out is not empty" "choose another folder with --out"
else
  mkdir -p "$out" || exit 2
fi
[ -z "$logcat" ] || log_start
command="sh $(quote "$script") start $(quote "$run") $(quote "${arch:--}") $devices $(quote "$vendor") $(quote "$wrap")"
(remote "$command" 2>&1 | tee "$out/log.txt") &
runner=$!
wait "$runner"
runner=
[ -z "$logcat" ] || log_stop
logger=
ask "cat $(quote "$run/out/status") 2>/dev/null; true"
printf '%s' "$answer" | sed '/^$/d' >"$scratch/status"
pull "$run/out" "$out" >"$scratch/said" 2>&1 || say "note: no outputs came back: $(tail -n 1 "$scratch/said")"
</%text>\
% if plan.adb:
<%text># adb puts the folder itself into ours.
if [ -d "$out/out" ]; then
  for each in "$out"/out/*; do [ ! -e "$each" ] || mv "$each" "$out/"; done
  rmdir "$out/out"
fi</%text>
% endif
<%text>
say "outputs are in $out"
[ "$(wc -l <"$scratch/status")" -eq "$devices" ] || fail 5 "the client did not run to its end" "udogen explain $out/log.txt"
while read -r where code; do
  [ "$code" -eq 0 ] || fail 5 "$client ended with $code on $where" "udogen explain $out/log.txt"
done <"$scratch/status"

# --- is it right --------------------------------------------------------------------------------------------

wrong=0
prove() { # package, op
  # Lines `PACKAGE OP COUNT WHAT`; what Hexagon counts is in the log of the device.
  count=$(cat "$out/$where/executions.txt" "$out/logcat.txt" 2>/dev/null | awk -v package="$1" -v op="$2" '
    { for (at = 1; at + 3 <= NF; at++)
        if ($at == package && $(at + 1) == op && $(at + 3) ~ /^(executions|calls|nodes)/) { told++; sum += $(at + 2) } }
    END { print told ? sum + 0 : "none" }')
  case $count in
    none) said="told no count: it was not registered, or built by an older udogen" ;;
    0) said="did not run in our kernel" ;;
    *) printf '%s\n' "$where: $1::$2 ran in our kernel, counted $count" && return ;;
  esac
  wrong=1
  printf '%s\n' "$where: $1::$2 $said"
}
# The values of a file, one on each line.
values() { # file, type
  case $2 in
    float16) format=u2 ;;
    float32) format=f4 ;;
    float64) format=f8 ;;
    int8) format=d1 ;;
    int16) format=d2 ;;
    int32) format=d4 ;;
    int64) format=d8 ;;
    uint8) format=u1 ;;
    uint16) format=u2 ;;
    uint32) format=u4 ;;
    *) format=u8 ;;
  esac
  od -A n -v -t "$format" "$1" | tr -s '[:blank:]' '\n' | sed '/^$/d'
}
compare() { # sample, name, output, reference, type, absolute, relative
  file=$out/$where/$3
  # Some write tensors of their own type under another name.
  [ -f "$file" ] || file=${file%.raw}_native.raw
  what="$where sample $1 $2"
  if [ ! -f "$file" ]; then
    wrong=1
    printf '%s\n' "$what: there is no $3"
    return
  fi
  bytes=$(($(wc -c <"$file")))
  wanted=$(($(wc -c <"$here/$4")))
  if [ "$bytes" -ne "$wanted" ]; then
    wrong=1
    printf '%s\n' "$what: $bytes bytes, the reference ($5) has $wanted"
    return
  fi
  values "$file" "$5" >"$scratch/is"
  values "$here/$4" "$5" >"$scratch/shall"
  paste "$scratch/is" "$scratch/shall" | awk -v what="$what" -v absolute="$6" -v relative="$7" -v type="$5" '
    function half(bits,  sign, exponent, fraction) {
      sign = bits >= 32768 ? -1 : 1
      exponent = int(bits / 1024) % 32
      fraction = bits % 1024
      if (exponent == 31) return fraction ? "nan" : (sign < 0 ? "-inf" : "inf")
      if (exponent == 0) return sign * fraction * 2 ^ -24
      return sign * (1 + fraction / 1024) * 2 ^ (exponent - 15)
    }
    function special(text) { text = tolower(text); sub(/^-nan/, "nan", text); return text ~ /nan|inf/ ? text : "" }
    {
      x = $1; y = $2
      if (type == "float16") { x = half(x); y = half(y) }
      distance = -1
      if (special(x) != "" || special(y) != "") good = special(x) == special(y)
      else if ((x "") == (y "")) { good = 1; distance = 0 }
      else {
        distance = x > y ? x - y : y - x
        good = distance <= absolute + relative * (y < 0 ? -y : y)
      }
      if (!good && !bad++) { at = NR - 1; is = x; shall = y }
      if (distance > worst) worst = distance
    }
    END {
      if (!bad) { printf "%s: right, %d values, the largest difference is %.3g\n", what, NR, worst + 0; exit 0 }
      printf "%s: wrong, %d of %d values, the first is %d: ", what, bad, NR, at
      if (special(is) == "") is = sprintf("%.6g", is)
      if (special(shall) == "") shall = sprintf("%.6g", shall)
      printf "%s instead of %s; the largest difference is %.3g\n", is, shall, worst + 0
      exit 1
    }' || wrong=1
}
while read -r where code; do
  proofs prove
  checks compare
done <"$scratch/status"
[ "$wrong" -eq 0 ] || exit 6
exit 0
</%text>\
