# shellcheck shell=bash
# shellcheck disable=SC2154 # cache, run, home, release: scripts/services
# PostgreSQL, and PgBouncer in front of it. Uses what the system has; otherwise the packages of its own release (15 and
# 1.18 in Debian 12), unpacked into the cache.

postgres_cache=postgresql-$release
pgbouncer_cache=pgbouncer-$release

# postgres_bin: the folder with the server's programs; nothing if there is none.
postgres_bin() {
    local folder
    for folder in /usr/lib/postgresql/*/bin "$cache/$postgres_cache"/usr/lib/postgresql/*/bin; do
        if [[ -x $folder/postgres && -x $folder/initdb && -x $folder/psql ]]; then echo "$folder"; fi
    done | sort -V | tail -n 1
}

get_postgres() {
    if [[ -n $(postgres_bin) ]]; then return 0; fi
    once "$postgres_cache" debian_packages postgresql
    if [[ -z $(postgres_bin) ]]; then no "the package postgresql has no server for this machine"; fi
}

# libraries: a prefix for commands, so that they find what came with an unpacked package.
libraries=(env)
for folder in "$cache/$postgres_cache"/usr/lib/*-linux-gnu "$cache/$pgbouncer_cache"/usr/lib/*-linux-gnu; do
    if [[ -d $folder ]]; then libraries=(env "LD_LIBRARY_PATH=${libraries[1]+${libraries[1]#*=}:}$folder"); fi
done

# Both refuse to run as root. Root's processes become nobody's, but may still pass through root's folders: the cache
# may be in one. The securebit is for access(2), which forgets capabilities without it.
unprivileged=()
if [[ $(id -u) == 0 ]]; then
    unprivileged=(setpriv --reuid=65534 --regid=65534 --clear-groups --securebits=+no_setuid_fixup
        "--inh-caps=-all,+dac_override" "--ambient-caps=-all,+dac_override")
fi

hand_over() {
    if ((${#unprivileged[@]} > 0)); then chown -R 65534:65534 "$@"; fi
}

sql() {
    local url=$1
    shift
    PGCONNECT_TIMEOUT=30 "${libraries[@]}" "$(postgres_bin)/psql" --no-psqlrc --quiet --tuples-only --no-align \
        --set ON_ERROR_STOP=1 --dbname "$url" "$@" </dev/null
}

start_postgres() {
    local port password url bin data=$home/data
    bin=$(postgres_bin)
    password=$(secret)
    free_port port
    mkdir "$data"
    echo "$password" >"$home/password"
    hand_over "$data" "$home/password"
    # A cluster that is not yet in use may be lost; the server itself syncs.
    "${unprivileged[@]}" "${libraries[@]}" "$bin/initdb" --pgdata "$data" --username baton --pwfile "$home/password" \
        --auth scram-sha-256 --encoding UTF8 --locale C --no-sync
    # QUIT leaves out the checkpoint: what it would make durable is removed with the run folder.
    spawn postgres QUIT "${unprivileged[@]}" "${libraries[@]}" "$bin/postgres" -D "$data" -p "$port" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=200 -c shared_buffers=32MB
    url=postgres://baton:$password@127.0.0.1:$port
    wait_healthy postgres sql "$url/postgres" --command "select 1"
    sql "$url/postgres" --command "create database baton"
    echo "$url/baton" >"$home/url"
    export_as BATON_TEST_POSTGRES "$url/baton"
}

check_postgres() {
    all_run
    sql "$(<"$home/url")" --command "select 1"
}

pgbouncer_bin() {
    local file
    for file in /usr/sbin/pgbouncer "$cache/$pgbouncer_cache/usr/sbin/pgbouncer"; do
        if [[ -x $file ]]; then
            echo "$file"
            return 0
        fi
    done
}

get_pgbouncer() {
    get_postgres
    if [[ -n $(pgbouncer_bin) ]]; then return 0; fi
    once "$pgbouncer_cache" debian_packages pgbouncer
}

start_pgbouncer() {
    local port password url server
    until [[ -f $run/postgres/env ]]; do
        if [[ -f $run/postgres/failed || ! -d $run/postgres ]]; then no "postgres did not start"; fi
        sleep 0.1
    done
    url=$(<"$run/postgres/url")
    password=$(<"$run/postgres/password")
    server=${url##*@}
    server=${server%/*}
    free_port port
    printf '"baton" "%s"\n' "$password" >"$home/users"
    cat >"$home/pgbouncer.ini" <<TEXT
[databases]
* = host=${server%:*} port=${server#*:}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $home/users
admin_users = baton
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
TEXT
    hand_over "$home/users" "$home/pgbouncer.ini"
    spawn pgbouncer INT "${unprivileged[@]}" "${libraries[@]}" "$(pgbouncer_bin)" "$home/pgbouncer.ini"
    url=postgres://baton:$password@127.0.0.1:$port/baton
    wait_healthy pgbouncer sql "$url" --command "select 1"
    echo "$url" >"$home/url"
    export_as BATON_TEST_PGBOUNCER "$url"
}

check_pgbouncer() { check_postgres; }
