//! What members do for each other.

use std::net::SocketAddr;

use super::*;

async fn talk(ours: Trust, theirs: Trust) {
    let (mut one, mut two) = (member(options(1, ours)).await, member(options(2, theirs)).await);
    one.reach(&[at(&two, 2)]);
    until("the first has dialled", || one.connected() == [id(2)]).await;
    for n in 0..50_u8 {
        one.send(message(2, &[n; 100]));
    }
    for n in 0..50_u8 {
        assert_eq!(next(&mut two).await, Received { from: id(1), bytes: vec![n; 100] });
    }
    // It learned from the greeting where the first is.
    until("the second has dialled", || two.connected() == [id(1)]).await;
    two.send(message(1, b"back"));
    assert_eq!(next(&mut one).await.bytes, b"back");
    tokio::time::timeout(HANG, crate::transport::flush(&mut one)).await.unwrap();
    assert_eq!((one.counters().sent, two.counters().received), (50, 50));
    assert_eq!((one.complaints(), two.complaints()), (Vec::new(), Vec::<String>::new()));
}

#[tokio::test]
async fn members_talk_on_loopback() {
    talk(Trust::Loopback, Trust::Loopback).await;
}

#[tokio::test]
async fn members_talk_with_a_secret() {
    talk(secret(SECRET), secret(SECRET)).await;
}

#[tokio::test]
async fn members_talk_with_certificates() {
    let authority = Authority::new();
    talk(authority.trust("peer-1"), authority.trust("peer-2")).await;
}

#[tokio::test]
async fn a_silent_member_blocks_nobody_and_the_newest_messages_are_kept() {
    let (mut one, mut two) =
        (member(options(1, Trust::Loopback)).await, member(options(2, Trust::Loopback)).await);
    // It is there, and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = Peer { id: id(3), address: silent.local_addr().unwrap().to_string() };
    one.reach(&[at(&two, 2), peer]);
    until("it is dialled", || one.connected() == [id(2)]).await;
    for n in 0..1_000_u32 {
        one.send(message(3, &n.to_be_bytes()));
    }
    one.send(message(2, b"through"));
    assert_eq!(next(&mut two).await.bytes, b"through");
    assert_eq!(one.counters().dropped, 1_000 - crate::transport::QUEUE_LENGTH as u64);
}

#[tokio::test]
async fn a_member_that_comes_back_is_dialled_again() {
    let mut one = member(options(1, secret(SECRET))).await;
    let two = member(options(2, secret(SECRET))).await;
    let (peer, place) = (at(&two, 2), two.local());
    one.reach(std::slice::from_ref(&peer));
    until("it is dialled", || one.connected() == [id(2)]).await;
    drop(two);
    until("it is missed", || one.connected().is_empty()).await;
    let mut two = member(TcpOptions { listen: place, ..options(2, secret(SECRET)) }).await;
    until("it is dialled again", || one.connected() == [id(2)]).await;
    one.send(message(2, b"hello again"));
    // What was lost on the way is lost; what is sent from here on comes.
    until("it is heard", || {
        one.send(message(2, b"hello again"));
        two.counters().received > 0
    })
    .await;
    assert_eq!(next(&mut two).await.bytes, b"hello again");
}

#[tokio::test]
async fn two_processes_that_say_they_are_one_member_are_told_of() {
    let mut two = member(options(2, Trust::Loopback)).await;
    let mut lines = Vec::new();
    for life in [1, 2, 1, 2] {
        let mut me = caller(1, Trust::Loopback);
        me.life = life;
        let (reader, mut writer) = dialled(&two, 2, &me).await.unwrap();
        writer.send(&[1]).await.unwrap();
        assert_eq!(next(&mut two).await.bytes, [1]);
        lines.push((reader, writer));
    }
    let complaints = two.complaints();
    assert!(
        complaints.iter().any(|text| text.contains("two processes say that they are member 1")),
        "{complaints:?}"
    );
}

#[tokio::test]
async fn nobody_listens_to_the_world_without_proofs() {
    let mut open = options(1, Trust::Loopback);
    open.listen = SocketAddr::from(([0, 0, 0, 0], 0));
    let (control_handle, _) = control::control_channel();
    assert!(matches!(Tcp::open(open, control_handle).await, Err(TcpError::Unguarded(_))));
    let mut one = member(options(1, Trust::Loopback)).await;
    one.reach(&[Peer { id: id(2), address: "192.0.2.1:9".to_string() }]);
    until("it is refused", || one.counters().refused > 0).await;
    assert!(one.complaints().iter().any(|text| text.contains("--secret-file")), "a hint is given");
}

#[tokio::test]
async fn too_large_a_message_is_counted_and_not_sent() {
    let mut one = member(options(1, Trust::Loopback)).await;
    one.send(message(2, &vec![0; MAX_MESSAGE_BYTES + 1]));
    one.send(message(2, b"nobody knows where it is"));
    assert_eq!((one.counters().oversized, one.counters().dropped), (1, 1));
}

/// An authority, and the certificates that it gives.
pub(super) struct Authority {
    folder: tempfile::TempDir,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Authority { folder, issuer: rcgen::Issuer::new(parameters, key) }
    }

    pub(super) fn trust(&self, name: &str) -> Trust {
        use std::os::unix::fs::PermissionsExt;
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec![name.to_string()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let path = |ending: &str| self.folder.path().join(format!("{name}.{ending}"));
        std::fs::write(path("pem"), certificate.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        std::fs::set_permissions(path("key"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let files = CertificateFiles {
            certificate: path("pem"),
            key: path("key"),
            authority: self.folder.path().join("ca.pem"),
        };
        Trust::Certificates(Certificates::load(&files).unwrap())
    }
}

#[tokio::test]
async fn a_certificate_is_of_one_member() {
    let (authority, other) = (Authority::new(), Authority::new());
    let two = member(options(2, authority.trust("peer-2"))).await;
    assert!(dialled(&two, 2, &caller(1, authority.trust("peer-1"))).await.is_ok());
    for (trust, why) in [
        (authority.trust("peer-3"), "it says that it is member 1"),
        (authority.trust("operator"), "it is no member"),
    ] {
        let refused = dialled(&two, 2, &caller(1, trust)).await;
        assert!(matches!(refused, Err(GreetError::Refused(greeting::Refusal::Unproven))), "{why}");
    }
    assert!(dialled(&two, 2, &caller(1, other.trust("peer-1"))).await.is_err(), "another authority");
    let refused = dialled(&two, 3, &caller(1, authority.trust("peer-1"))).await;
    assert!(matches!(refused, Err(GreetError::Tls(_))), "whom it dials has to be whom it means");
    let (control_handle, _) = control::control_channel();
    let opened = Tcp::open(options(4, authority.trust("peer-2")), control_handle).await;
    assert!(matches!(opened, Err(TcpError::Certificate(error)) if error.hint.contains("`peer-4`")));
    until("all are counted", || two.counters().refused >= 3).await;
}

#[tokio::test]
async fn names_wait_for_their_turn_to_be_looked_up_and_addresses_do_not() {
    let mut one = member(options(1, Trust::Loopback)).await;
    let (two, three) = (member(options(2, Trust::Loopback)).await, member(options(3, Trust::Loopback)).await);
    // As if so many names hung.
    let hanging = Arc::clone(&one.shared.lookups);
    let held = hanging.acquire_many(u32::try_from(LOOKUPS_MAX).unwrap()).await.unwrap();
    let named = Peer { id: id(2), address: format!("localhost:{}", two.local().port()) };
    one.reach(&[named, at(&three, 3)]);
    until("the address is dialled", || one.connected() == [id(3)]).await;
    // The name's turn does not come, and no thread is taken for it meanwhile.
    until("it was tried", || lock(&one.shared.links)[&id(2)].lookup.available_permits() == 0).await;
    assert_eq!(one.connected(), [id(3)]);
    drop(held);
    until("the name is dialled", || one.connected() == [id(2), id(3)]).await;
}

#[tokio::test]
async fn a_member_that_told_its_address_and_is_gone_is_not_dialled_for_ever() {
    let mut two = member(options(2, Trust::Loopback)).await;
    let mut me = caller(1, Trust::Loopback);
    // Nobody is there.
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    me.advertise = gone.local_addr().unwrap().to_string();
    drop(gone);
    let listed = Peer { id: id(3), address: me.advertise.clone() };
    two.reach(std::slice::from_ref(&listed));
    let line = dialled(&two, 2, &me).await.unwrap();
    until("it is learned", || two.addresses().len() == 2).await;
    drop(line);
    until("it is forgotten", || two.addresses() == [listed.clone()]).await;
}
