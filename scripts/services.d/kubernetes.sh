# shellcheck shell=bash
# shellcheck disable=SC2154 # cache, home, work: scripts/services
# A kube-apiserver with an etcd of its own behind it. No nodes, no controllers: what serves Leases and asks RBAC.

kubernetes_version=1.37.1
kubernetes_bin=$cache/kubernetes-$kubernetes_version

get_kubernetes() {
    need openssl "install openssl"
    get_etcd
    once "kubernetes-$kubernetes_version" build_kubernetes
}

# Kubernetes' own module wants k8s.io/*@v0.0.0, which are folders of its repository; the same modules are published as
# v0.N.x. Required by that number, not only put in the place of v0.0.0, they compile once for client-go-elector too.
build_kubernetes() {
    local sources staging module package numbers told=
    IFS=. read -ra numbers <<<"$kubernetes_version"
    in_go mod init baton.test/kubernetes
    sources=$(in_go mod download -json "k8s.io/kubernetes@v$kubernetes_version" | sed -nE 's/^\s*"Dir": "(.*)",$/\1/p')
    staging=$(sed -nE 's#^\s+(k8s\.io/[a-z-]+) => \./staging/.*#\1#p' "$sources/go.mod")
    {
        echo "module baton.test/kubernetes"
        grep -E '^(go|godebug) ' "$sources/go.mod"
        echo "require k8s.io/kubernetes v$kubernetes_version"
        for module in $staging; do
            echo "require $module v0.${kubernetes_version#*.}"
            echo "replace $module v0.0.0 => $module v0.${kubernetes_version#*.}"
        done
    } >go.mod
    # What it says of itself at /version, which Kubernetes' own build sets the same way.
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        told+=" -X $package.gitVersion=v$kubernetes_version"
        told+=" -X $package.gitMajor=${numbers[0]} -X $package.gitMinor=${numbers[1]}"
    done
    go_build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$told"
    go_build kubectl k8s.io/kubernetes/cmd/kubectl "$told"
}

# kubeconfig FILE USER TOKEN ADDRESS
kubeconfig() {
    cat >"$1" <<TEXT
apiVersion: v1
kind: Config
current-context: $2
contexts: [{name: $2, context: {cluster: baton-test, user: $2, namespace: default}}]
users: [{name: $2, user: {token: $3}}]
clusters:
- name: baton-test
  cluster:
    server: https://$4
    certificate-authority-data: $(base64 -w 0 "$home/tls/ca.crt")
TEXT
}

start_kubernetes() {
    local address port admin agent tls=$home/tls
    admin=$(secret)
    agent=$(secret)
    certificates "$tls"
    openssl genrsa -out "$tls/service-account.key" 2048
    printf '%s\n' "$admin,admin,admin,system:masters" "$agent,agent,agent" >"$home/tokens.csv"
    spawn_single_etcd http
    wait_healthy etcd etcdctl_at "$address" endpoint health
    free_port port
    kubeconfig "$home/admin.kubeconfig" admin "$admin" "127.0.0.1:$port"
    kubeconfig "$home/agent.kubeconfig" agent "$agent" "127.0.0.1:$port"
    # Nobody dials the "kubernetes" Service, and its reconciler refuses a loopback address.
    spawn kube-apiserver TERM "$kubernetes_bin/kube-apiserver" --etcd-servers "http://$address" \
        --bind-address 127.0.0.1 --secure-port "$port" --cert-dir "$tls" \
        --advertise-address 127.0.0.1 --endpoint-reconciler-type none --service-cluster-ip-range 10.0.0.0/24 \
        --tls-cert-file "$tls/server.crt" --tls-private-key-file "$tls/server.key" \
        --token-auth-file "$home/tokens.csv" --authorization-mode RBAC \
        --service-account-issuer https://kubernetes.default.svc \
        --service-account-key-file "$tls/service-account.key" \
        --service-account-signing-key-file "$tls/service-account.key"
    wait_healthy kube-apiserver kubernetes_ready
    export_as BATON_TEST_KUBECONFIG "$home/admin.kubeconfig"
    export_as BATON_TEST_KUBECONFIG_AGENT "$home/agent.kubeconfig"
    export_as BATON_TEST_KUBECTL "$kubernetes_bin/kubectl"
}

kubernetes_ready() {
    local kubectl=("$kubernetes_bin/kubectl" --kubeconfig "$home/admin.kubeconfig" --request-timeout 5s)
    "${kubectl[@]}" get --raw /readyz && "${kubectl[@]}" get namespace default
}

check_kubernetes() {
    all_run
    kubernetes_ready
}
