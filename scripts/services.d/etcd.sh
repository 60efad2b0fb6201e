# shellcheck shell=bash
# shellcheck disable=SC2154 # cache, run, home, name, work: scripts/services
# etcd, built from the Go module proxy: one member, three members, and one with TLS and authentication.

etcd_version=3.6.16
etcd_bin=$cache/etcd-$etcd_version

get_etcd() { once "etcd-$etcd_version" build_etcd; }
get_etcd3() { get_etcd; }
get_etcd_tls() {
    need openssl "install openssl"
    get_etcd
}

# A module of its own: etcd's has replacements, which `go install` refuses.
build_etcd() {
    in_go mod init baton.test/etcd
    in_go get "go.etcd.io/etcd/server/v3@v$etcd_version" "go.etcd.io/etcd/etcdctl/v3@v$etcd_version"
    go_build etcd go.etcd.io/etcd/server/v3
    go_build etcdctl go.etcd.io/etcd/etcdctl/v3
}

# spawn_etcd MEMBER CLIENT-URL PEER-URL CLUSTER FLAGS...: durable as etcd is by default. Pre-votes, and the timing for
# a fast network, are defaults too.
spawn_etcd() {
    local member=$1 client=$2 peer=$3 cluster=$4
    shift 4
    spawn "$member" TERM "$etcd_bin/etcd" --name "$member" --data-dir "$home/$member.data" \
        --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
        --initial-cluster "$cluster" --initial-cluster-token "$(<"$run/.baton-services")-$name" "$@"
}

# spawn_single_etcd SCHEME FLAGS...: sets `address`.
spawn_single_etcd() {
    local scheme=$1 port peer_port
    shift
    free_port port
    free_port peer_port
    address=127.0.0.1:$port
    spawn_etcd etcd "$scheme://$address" "http://127.0.0.1:$peer_port" "etcd=http://127.0.0.1:$peer_port" "$@"
}

etcdctl_at() {
    local endpoints=$1
    shift
    ETCDCTL_API=3 "$etcd_bin/etcdctl" --endpoints "$endpoints" --dial-timeout=10s --command-timeout=30s "$@"
}

export_etcd_tools() {
    export_as BATON_TEST_ETCDCTL "$etcd_bin/etcdctl"
    export_as BATON_TEST_ETCD_SERVER "$etcd_bin/etcd"
}

start_etcd() {
    local address
    spawn_single_etcd http
    wait_healthy etcd etcdctl_at "$address" endpoint health
    echo "$address" >"$home/endpoints"
    export_as BATON_TEST_ETCD "$address"
    export_etcd_tools
}

check_etcd() {
    all_run
    etcdctl_at "$(<"$home/endpoints")" endpoint health
}

start_etcd3() {
    local i port ports=() peers=() members=() clients
    for i in 0 1 2; do
        free_port port
        ports+=("127.0.0.1:$port")
        free_port port
        peers+=("http://127.0.0.1:$port")
        members+=("etcd$i=${peers[i]}")
    done
    for i in 0 1 2; do
        spawn_etcd "etcd$i" "http://${ports[i]}" "${peers[i]}" "${members[0]},${members[1]},${members[2]}"
    done
    for i in 0 1 2; do wait_healthy "etcd$i" etcdctl_at "${ports[i]}" endpoint health; done
    clients=${ports[0]},${ports[1]},${ports[2]}
    echo "$clients" >"$home/endpoints"
    export_as BATON_TEST_ETCD3 "$clients"
    export_etcd_tools
}

check_etcd3() { check_etcd; }

start_etcd_tls() {
    local address password tls=$home/tls
    password=$(secret)
    certificates "$tls"
    spawn_single_etcd https --cert-file "$tls/server.crt" --key-file "$tls/server.key"
    wait_healthy etcd etcdctl_at "https://$address" --cacert "$tls/ca.crt" endpoint health
    etcdctl_at "https://$address" --cacert "$tls/ca.crt" user add "root:$password"
    etcdctl_at "https://$address" --cacert "$tls/ca.crt" user grant-role root root
    etcdctl_at "https://$address" --cacert "$tls/ca.crt" auth enable
    echo "https://$address" >"$home/endpoints"
    echo "root:$password" >"$home/user"
    check_etcd_tls
    export_as BATON_TEST_ETCD_TLS "$address"
    export_as BATON_TEST_ETCD_TLS_CA "$tls/ca.crt"
    export_as BATON_TEST_ETCD_TLS_USER root
    export_as BATON_TEST_ETCD_TLS_PASSWORD "$password"
    export_etcd_tools
}

check_etcd_tls() {
    all_run
    etcdctl_at "$(<"$home/endpoints")" --cacert "$home/tls/ca.crt" --user "$(<"$home/user")" endpoint health
}
