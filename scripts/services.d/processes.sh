# shellcheck shell=bash
# shellcheck disable=SC2154 # run, home, name, cache, deadline_s: scripts/services
# The run folder, ports, and the processes of the servers. Nothing is signalled but what start began: a pid
# counts only together with the time its process was started, and a child only by its parent or by the tag
# in its environment.

# --- The run folder -------------------------------------------------------------------------------

# Makes $run ours, and locks it: one start or stop at a time. Its marker, which comes before anything else in it, holds
# the tag that all its processes carry. Servers do not inherit the lock: see spawn and alone.
adopt_run() {
    local entries
    while true; do
        mkdir -p "$run"
        entries=$(find "$run" -mindepth 1 -maxdepth 1 ! -name .lock)
        if [[ -n $entries && ! -f $run/.baton-services ]]; then
            fail "$run is not empty and not a run folder of scripts/services"
        fi
        lock_run
        # A stop may have removed it while we waited.
        if [[ $run/.lock -ef /dev/fd/9 ]]; then break; fi
    done
    if [[ ! -f $run/.baton-services ]]; then echo "$$-$RANDOM$RANDOM" >"$run/.baton-services"; fi
    # Servers that refuse to run as root must be able to pass through.
    chmod 711 "$run"
}

lock_run() {
    exec 9>"$run/.lock"
    flock -w 3600 9 || fail "$run is locked by another start or stop"
}

find_run() {
    if [[ -z ${BATON_SERVICES_DIR:-} ]]; then fail "BATON_SERVICES_DIR is not set: which servers?"; fi
    run=$(readlink -f "$BATON_SERVICES_DIR")
    if [[ ! -f $run/.baton-services ]]; then fail "$BATON_SERVICES_DIR is not a run folder of scripts/services"; fi
}

remove_run() { rm -rf "$run"; }

remove_run_if_empty() {
    if [[ -z $(find "$run" -mindepth 1 -maxdepth 1 -type d) ]]; then remove_run; fi
}

# --- Ports ----------------------------------------------------------------------------------------

# free_port VARIABLE: below the range from which the kernel gives ports to clients. The folder is a claim, so
# that two servers that start at the same time do not choose the same one.
free_port() {
    local candidate tries
    mkdir -p "$cache/ports"
    find "$cache/ports" -mindepth 1 -maxdepth 1 -mmin +30 -exec rmdir {} + 2>/dev/null || true
    for ((tries = 0; tries < 200; tries++)); do
        candidate=$((20000 + RANDOM % 12000))
        if (exec 3<>"/dev/tcp/127.0.0.1/$candidate") 2>/dev/null; then continue; fi
        if mkdir "$cache/ports/$candidate" 2>/dev/null; then
            echo "$candidate" >>"$home/ports"
            printf -v "$1" %s "$candidate"
            return 0
        fi
    done
    no "no free port between 20000 and 32000"
}

# Once the servers listen, or have failed, their claims have done their work.
release_ports() {
    local port
    for port in $(cat "$run"/*/ports 2>/dev/null || true); do
        rmdir "$cache/ports/$port" 2>/dev/null || true
    done
}

# --- Processes ------------------------------------------------------------------------------------

# spawn PROCESS SIGNAL COMMAND...: starts it in a session of its own, its output in $home/PROCESS.log. SIGNAL is
# how it is asked to end.
spawn() {
    local process=$1 signal=$2 tag
    shift 2
    tag=$(<"$run/.baton-services")
    BATON_SERVICES_TAG=$tag/$name/ setsid "$@" </dev/null >>"$home/$process.log" 2>&1 9>&- &
    printf '%s %s %s\n' "$!" "$(started_at "$!")" "$signal" >"$home/$process.pid"
}

# started_at PID: when the process was started, in clock ticks since boot; nothing for one that is gone.
started_at() {
    local stat
    if ! { stat=$(<"/proc/$1/stat"); } 2>/dev/null; then return 0; fi
    # The name may hold spaces and parentheses; fields count from behind the last one.
    read -ra stat <<<"${stat##*) }"
    if [[ ${stat[0]} != Z ]]; then echo "${stat[19]}"; fi
}

runs() { [[ -n ${2:-} && $(started_at "$1") == "$2" ]]; }

# wait_healthy PROCESS CHECK...: until the check succeeds; fails when the process ends or the time is up.
wait_healthy() {
    local process=$1 pid start signal end=$((SECONDS + deadline_s))
    shift
    read -r pid start signal <"$home/$process.pid"
    until "$@" >/dev/null 2>&1; do
        if ! runs "$pid" "$start"; then no "$process ended: $(last_line "$process")"; fi
        if ((SECONDS > end)); then no "$process is not healthy after $deadline_s s: $(last_line "$process")"; fi
        sleep 0.1
    done
}

last_line() {
    { grep -v '^[[:space:]]*$' "$home/$1.log" || echo "it said nothing"; } | tail -n 1 | cut -c 1-300
}

# all_run: every process of this server is there.
all_run() {
    local file pid start signal
    for file in "$home"/*.pid; do
        read -r pid start signal <"$file"
        if ! runs "$pid" "$start"; then
            echo "$(basename "$file" .pid) has ended"
            return 1
        fi
    done
}

# stop_servers NAME...: ends their processes and forgets them.
stop_servers() {
    local name
    end_processes "$@"
    for name in "$@"; do rm -rf "${run:?}/$name" "${run:?}/$name.before"; done
}

# end_processes NAME...: asks, waits up to ten seconds, then kills; descendants too.
end_processes() {
    local name file pid start signal entry tries leaders=() victims=()
    for name in "$@"; do
        for file in "$run/$name"/*.pid; do
            if [[ ! -f $file ]]; then continue; fi
            read -r pid start signal <"$file"
            if runs "$pid" "$start"; then leaders+=("$pid $start $signal"); fi
        done
    done
    mapfile -t victims < <(
        for entry in "${leaders[@]}"; do echo "${entry%% *}"; done | descendants
        for name in "$@"; do tagged "$name"; done
    )
    for entry in "${leaders[@]}"; do
        read -r pid start signal <<<"$entry"
        kill -s "$signal" "$pid" 2>/dev/null || true
    done
    for ((tries = 0; tries < 100; tries++)); do
        if ! any_runs "${victims[@]}"; then return 0; fi
        # A child whose parent is gone, or does not pass it on, gets no other word.
        if ((tries == 5)); then signal_each TERM "${victims[@]}"; fi
        sleep 0.1
    done
    signal_each KILL "${victims[@]}"
    for ((tries = 0; tries < 50; tries++)); do
        if ! any_runs "${victims[@]}"; then return 0; fi
        sleep 0.1
    done
    say "some processes cannot be ended: ${victims[*]}"
}

# Ends what this very call runs: a build, the start of a server. Parents first, so that none complains of its child.
end_children() {
    local children=()
    mapfile -t children < <(echo "$$" | descendants | grep -v "^$$ " | sort -n -k 2)
    signal_each TERM "${children[@]}"
}

any_runs() {
    local entry
    for entry in "$@"; do
        # shellcheck disable=SC2086 # a pid and a time
        if runs $entry; then return 0; fi
    done
    return 1
}

signal_each() {
    local signal=$1 entry
    shift
    for entry in "$@"; do
        # shellcheck disable=SC2086 # a pid and a time
        if runs $entry; then kill -s "$signal" "${entry%% *}" 2>/dev/null || true; fi
    done
}

# descendants: of the pids on stdin, and they themselves, as lines of pid and time.
descendants() {
    cat - <(echo --) /proc/[0-9]*/stat 2>/dev/null | awk '
        !tree && $1 == "--" { tree = 1; next }
        !tree { inside[$1] = 1; next }
        { pid = $1; sub(/^.*\) /, ""); parent[pid] = $2; start[pid] = $20 }
        END {
            do {
                grown = 0
                for (pid in parent) if (!(pid in inside) && parent[pid] in inside) { inside[pid] = 1; grown = 1 }
            } while (grown)
            for (pid in inside) if (pid in start) print pid, start[pid]
        }'
}

# tagged NAME: processes that this server began, whoever is their parent, as lines of pid and time.
tagged() {
    local file pid tag
    tag=$(<"$run/.baton-services")
    grep -lazF "BATON_SERVICES_TAG=$tag/$1/" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        echo "$pid $(started_at "$pid")"
    done || true
}
