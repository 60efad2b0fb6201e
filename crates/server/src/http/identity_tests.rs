use baton_election::WallTime;
use baton_election::operator::PublicKey;
use baton_election::tokens::{Proof, Role};
use futures_util::FutureExt;
use http::HeaderValue;

use super::*;

/// A client of this machine, over TCP.
const HERE: Peer = Peer::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

fn secret(number: u8) -> TokenSecret {
    TokenSecret::new(TokenId([number; 6]), [number; 32])
}

fn entry(number: u8, role: Role) -> TokenEntry {
    TokenEntry {
        id: TokenId([number; 6]),
        proof: Proof::Secret { hash: Some(secret(number).hash()) },
        role,
        agents: Vec::new(),
        elections: Vec::new(),
        resources: Vec::new(),
        note: String::new(),
        created: WallTime::from_unix_millis(0),
        expires: None,
        by: PublicKey([0; 32]),
    }
}

fn tokens(entries: Vec<TokenEntry>) -> Tokens {
    Tokens { orders: 1, tokens: entries, ..Tokens::default() }
}

fn shown(text: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(text).unwrap())])
}

fn code(outcome: Result<Identity, Problem>) -> String {
    let problem = outcome.unwrap_err().to_value();
    format!("{} {}", problem["status"], problem["detail"].as_str().unwrap())
}

#[test]
fn a_token_is_known_by_all_of_it() {
    let register = Register::new(&tokens(vec![entry(1, Role::Agent)]), true, None);
    let bearer = |secret: &TokenSecret| shown(&format!("Bearer {}", secret.reveal()));
    assert!(matches!(
        register.identify(&HERE, &bearer(&secret(1)), None, || Ok(())),
        Ok(Identity::Bearer(_))
    ));
    assert!(
        register.identify(&HERE, &shown(&format!("bearer  {}", secret(1).reveal())), None, || Ok(())).is_ok()
    );
    let forged = TokenSecret::new(TokenId([1; 6]), [9; 32]);
    assert!(
        code(register.identify(&HERE, &bearer(&forged), None, || Ok(())))
            .starts_with("401 the token is not known")
    );
    assert!(
        code(register.identify(&HERE, &bearer(&secret(2)), None, || Ok(())))
            .starts_with("401 the token is not known")
    );
    let text = secret(1).reveal().to_string();
    let cut =
        code(
            register.identify(&HERE, &shown(&format!("Bearer {}", &text[..text.len() - 2])), None, || Ok(())),
        );
    assert_eq!(cut, "401 it was cut off or mistyped");
    for odd in ["Basic YTpi", "Bearer", "Bearer ", "Bearer x", &text] {
        let said = code(register.identify(&HERE, &shown(odd), None, || Ok(())));
        assert!(said.starts_with("401") && !said.contains(&text), "{odd}: {said}");
    }
    assert!(code(register.identify(&HERE, &HeaderMap::new(), None, || Ok(()))).starts_with("401"));
}

#[test]
fn where_none_is_needed_a_token_still_binds_and_a_wrong_one_is_refused() {
    let register = Register::new(&tokens(vec![entry(1, Role::Observer)]), false, None);
    let anybody = register.identify(&HERE, &HeaderMap::new(), None, || Ok(())).unwrap();
    assert!(matches!(anybody, Identity::Anybody));
    assert!(anybody.check(Right::Administer).is_ok());
    let observer =
        register.identify(&HERE, &shown(&format!("Bearer {}", secret(1).reveal())), None, || Ok(())).unwrap();
    assert!(observer.check(Right::Read).is_ok() && observer.check(Right::Act).is_err());
    assert!(
        register.identify(&HERE, &shown(&format!("Bearer {}", secret(2).reveal())), None, || Ok(())).is_err()
    );
}

#[test]
fn an_expired_token_opens_nothing() {
    let expired = TokenEntry { expires: Some(WallTime::from_unix_millis(1)), ..entry(1, Role::Agent) };
    let register = Register::new(&tokens(vec![expired]), true, None);
    let said =
        code(register.identify(&HERE, &shown(&format!("Bearer {}", secret(1).reveal())), None, || Ok(())));
    assert_eq!(said, "401 the token has expired");
}

#[test]
fn who_is_for_some_agents_must_name_one_of_them() {
    let ci = TokenEntry { agents: vec!["ci-*".parse().unwrap()], ..entry(1, Role::Agent) };
    let ci = Identity::Bearer(Bearer { entry: Arc::new(ci), shown: OpeningProof::Secret });
    let agent = |name: &str| AgentName::new(name).unwrap();
    assert!(ci.check_agent(&agent("ci-1")).is_ok() && ci.check_agent(&agent("alice")).is_err());
    assert!(ci.check_some_agent(None).is_err() && ci.check_some_agent(Some(&agent("ci-1"))).is_ok());
    assert!(Identity::Anybody.check_some_agent(None).is_ok());
}

#[tokio::test]
async fn who_is_revoked_is_let_go_of_at_once() {
    let register = Register::new(&tokens(vec![entry(1, Role::Agent), entry(2, Role::Agent)]), true, None);
    let one =
        register.identify(&HERE, &shown(&format!("Bearer {}", secret(1).reveal())), None, || Ok(())).unwrap();
    let mut ended = std::pin::pin!(register.ended(&one));
    assert!(ended.as_mut().now_or_never().is_none());
    register.set(&tokens(vec![entry(1, Role::Agent)]));
    assert!(ended.as_mut().now_or_never().is_none(), "it was another");
    register.set(&tokens(Vec::new()));
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
}

#[test]
fn a_user_of_the_socket_needs_no_token_and_is_bound_by_one_that_it_shows() {
    let user = Peer::of_user(1_000, 1_000);
    for needed in [true, false] {
        let register = Register::new(&tokens(vec![entry(1, Role::Observer)]), needed, None);
        let one = register.identify(&user, &HeaderMap::new(), None, || Ok(())).unwrap();
        assert!(matches!(one, Identity::User(1_000)) && register.knows(&one));
        assert!(one.check(Right::Operate).is_ok() && one.sees_all());
        assert!(one.check(Right::Administer).is_err(), "tokens take an operator's token");
        let observer = register
            .identify(&user, &shown(&format!("Bearer {}", secret(1).reveal())), None, || Ok(()))
            .unwrap();
        assert!(observer.check(Right::Act).is_err());
        assert!(
            register
                .identify(&user, &shown(&format!("Bearer {}", secret(2).reveal())), None, || Ok(()))
                .is_err()
        );
    }
}
