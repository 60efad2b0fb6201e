# shellcheck shell=bash
# shellcheck disable=SC2154 # cache, release, etcd_bin: scripts/services
# Programs that are only got: benchmarks and checks start them by themselves, each time with nothing in them. They are left out
# unless they are named.

# Of the system's own release (7.0 in Debian 12), as it is had or unpacked into the cache.
redis_cache=redis-$release

redis_bin() {
    local file
    for file in /usr/bin/redis-server "$cache/$redis_cache/usr/bin/redis-server"; do
        if [[ -x $file ]]; then
            echo "$file"
            return 0
        fi
    done
}

get_redis() {
    if [[ -n $(redis_bin) ]]; then return 0; fi
    once "$redis_cache" debian_packages redis-server
}

# The libraries that came with an unpacked package are found by the folder beside it.
start_redis() {
    export_as BATON_TEST_REDIS_SERVER "$(redis_bin)"
    export_as BATON_TEST_REDIS_LIBRARIES "$(redis_libraries)"
}

redis_libraries() { echo "$cache/$redis_cache"/usr/lib/*-linux-gnu; }

check_redis() { LD_LIBRARY_PATH=$(redis_libraries) "$(redis_bin)" --version; }

get_etcd_server() { get_etcd; }
start_etcd_server() { export_as BATON_TEST_ETCD_SERVER "$etcd_bin/etcd"; }
check_etcd_server() { "$etcd_bin/etcd" --version; }

# Only promtool of Debian's prometheus, and nothing that the server needs.
promtool_cache=promtool-$release

promtool_bin() {
    local file
    for file in /usr/bin/promtool "$cache/$promtool_cache/usr/bin/promtool"; do
        if [[ -x $file ]]; then
            echo "$file"
            return 0
        fi
    done
}

get_promtool() {
    if [[ -n $(promtool_bin) ]]; then return 0; fi
    once "$promtool_cache" debian_package_alone prometheus
}

start_promtool() { export_as BATON_TEST_PROMTOOL "$(promtool_bin)"; }
check_promtool() { "$(promtool_bin)" --version; }
