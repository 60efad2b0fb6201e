# shellcheck shell=bash
# shellcheck disable=SC2154 # cache, home, root: scripts/services
# The electors of others, from tests/peers: not servers, but got and found the same way.

# peer_folder PEER: in the cache, for these very sources.
peer_folder() {
    local hash
    hash=$(cd "$root/tests/peers" && cat {journal,"$1"}/{go.mod,go.sum,*.go} | sha256sum)
    echo "$1-${hash:0:16}"
}

build_peer() {
    (cd "$root/tests/peers/$1" && in_go build -mod=readonly -trimpath -ldflags '-s -w' -o "$work/out/$1" .)
}

get_peer() { once "$(peer_folder "$1")" build_peer "$1"; }

start_peer() { export_as "$2" "$cache/$(peer_folder "$1")/$1"; }

# It was built from what stands in the tree, and runs.
check_peer() {
    "$cache/$(peer_folder "$1")/$1" --help
}

get_client_go_elector() { get_peer client-go-elector; }
start_client_go_elector() { start_peer client-go-elector BATON_TEST_CLIENT_GO_ELECTOR; }
check_client_go_elector() { check_peer client-go-elector; }

get_etcd_elector() { get_peer etcd-elector; }
start_etcd_elector() { start_peer etcd-elector BATON_TEST_ETCD_ELECTOR; }
check_etcd_elector() { check_peer etcd-elector; }
