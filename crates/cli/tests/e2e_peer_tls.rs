//! A group of `baton peer` processes that know each other by certificates.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::support::peers::{Peers, STEADY};
use crate::support::{World, finish, until};

fn authority(world: &World, name: &str) -> Issuer<'static, KeyPair> {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(world.file(name), parameters.self_signed(&key).unwrap().pem()).unwrap();
    Issuer::new(parameters, key)
}

fn certificate(world: &World, issuer: &Issuer<'_, KeyPair>, file: &str, name: &str) {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec![name.to_string()]).unwrap().signed_by(&key, issuer).unwrap();
    fs::write(world.file(&format!("{file}.pem")), certificate.pem()).unwrap();
    fs::write(world.file(&format!("{file}.key")), key.serialize_pem()).unwrap();
    fs::set_permissions(world.file(&format!("{file}.key")), fs::Permissions::from_mode(0o600)).unwrap();
}

fn shown(file: &str) -> [String; 6] {
    let (certificate, key) = (format!("{file}.pem"), format!("{file}.key"));
    ["--tls-cert", &certificate, "--tls-key", &key, "--tls-ca", "ca.pem"].map(str::to_string)
}

#[test]
fn members_with_certificates_elect_and_only_those() {
    let world = World::folder();
    let (ours, theirs) = (authority(&world, "ca.pem"), authority(&world, "other.pem"));
    let mut peers = Peers::new(&world, "raft", 4);
    peers.rhythm = STEADY;
    for id in 1..=3 {
        certificate(&world, &ours, &format!("peer-{id}"), &format!("peer-{id}"));
        peers.member(id).extra = shown(&format!("peer-{id}")).to_vec();
        peers.member(id).extra.push("--found".to_string());
    }
    // The fourth has a certificate of somebody else.
    certificate(&world, &theirs, "peer-4", "peer-4");
    peers.member(4).extra = shown("peer-4").to_vec();
    peers.start_all();
    let (leader, token) = peers.leader_among(&[1, 2, 3], 0);
    until("the stranger is noticed", || peers.log(leader).contains("TLS"));

    certificate(&world, &ours, "guest", "guest");
    certificate(&world, &ours, "operator", "operator");
    let place = format!("{leader}={}", peers.address(leader));
    let ask = |what: &str, file: &str| {
        let mut words = vec!["peer", what, "--connect", &place];
        let shown = shown(file);
        words.extend(shown.iter().map(String::as_str));
        world.call(&words)
    };
    assert!(ask("status", "guest").expect(0).stdout.contains("leads"));
    let refused = ask("transfer", "guest").expect(3);
    assert!(
        refused.stderr.contains("may only ask") && refused.stderr.contains("DNS name `operator`"),
        "{}",
        refused.stderr
    );
    let plain = world.call(&["peer", "status", "--connect", &place]).expect(1);
    assert!(
        plain.stderr.contains("without a word") && plain.stderr.contains("--tls-cert"),
        "{}",
        plain.stderr
    );
    assert!(ask("status", "peer-4").code != 0);
    ask("transfer", "operator").expect(0);
    let (next, _) = peers.leader_among(&[1, 2, 3], token);
    assert_ne!(leader, next);

    // A member must have its own.
    peers.kill(leader);
    let other = if leader == 1 { 2 } else { 1 };
    peers.member(leader).extra = shown(&format!("peer-{other}")).to_vec();
    let wrong = finish(peers.command(leader, &["true"]), None).expect(2);
    assert!(wrong.stderr.contains(&format!("`peer-{leader}`")), "{}", wrong.stderr);
    peers.check();
}
