use baton_election::WallTime;
use baton_election::operator::PublicKey;
use baton_election::tokens::Role;
use futures_util::FutureExt;
use http::HeaderValue;

use super::*;

fn secret(number: u8) -> TokenSecret {
    TokenSecret::new(TokenId([number; 6]), [number; 32])
}

fn entry(number: u8, role: Role) -> TokenEntry {
    TokenEntry {
        id: TokenId([number; 6]),
        hash: Some(secret(number).hash()),
        role,
        agents: Vec::new(),
        elections: Vec::new(),
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
    let register = Register::new(&tokens(vec![entry(1, Role::Agent)]), true);
    let bearer = |secret: &TokenSecret| shown(&format!("Bearer {}", secret.reveal()));
    assert!(matches!(register.identify(&bearer(&secret(1))), Ok(Identity::Bearer(_))));
    assert!(register.identify(&shown(&format!("bearer  {}", secret(1).reveal()))).is_ok());
    let forged = TokenSecret::new(TokenId([1; 6]), [9; 32]);
    assert!(code(register.identify(&bearer(&forged))).starts_with("401 the token is not known"));
    assert!(code(register.identify(&bearer(&secret(2)))).starts_with("401 the token is not known"));
    let text = secret(1).reveal().to_string();
    let cut = code(register.identify(&shown(&format!("Bearer {}", &text[..text.len() - 2]))));
    assert_eq!(cut, "401 it was cut off or mistyped");
    for odd in ["Basic YTpi", "Bearer", "Bearer ", "Bearer x", &text] {
        let said = code(register.identify(&shown(odd)));
        assert!(said.starts_with("401") && !said.contains(&text), "{odd}: {said}");
    }
    assert!(code(register.identify(&HeaderMap::new())).starts_with("401"));
}

#[test]
fn where_none_is_needed_a_token_still_binds_and_a_wrong_one_is_refused() {
    let register = Register::new(&tokens(vec![entry(1, Role::Observer)]), false);
    let anybody = register.identify(&HeaderMap::new()).unwrap();
    assert!(matches!(anybody, Identity::Anybody));
    assert!(anybody.check(Right::Operate).is_ok());
    let observer = register.identify(&shown(&format!("Bearer {}", secret(1).reveal()))).unwrap();
    assert!(observer.check(Right::Read).is_ok() && observer.check(Right::Act).is_err());
    assert!(register.identify(&shown(&format!("Bearer {}", secret(2).reveal()))).is_err());
}

#[test]
fn an_expired_token_opens_nothing() {
    let expired = TokenEntry { expires: Some(WallTime::from_unix_millis(1)), ..entry(1, Role::Agent) };
    let register = Register::new(&tokens(vec![expired]), true);
    let said = code(register.identify(&shown(&format!("Bearer {}", secret(1).reveal()))));
    assert_eq!(said, "401 the token has expired");
}

#[test]
fn who_is_for_some_agents_must_name_one_of_them() {
    let ci = TokenEntry { agents: vec!["ci-*".parse().unwrap()], ..entry(1, Role::Agent) };
    let ci = Identity::Bearer(Arc::new(ci));
    let agent = |name: &str| AgentName::new(name).unwrap();
    assert!(ci.check_agent(&agent("ci-1")).is_ok() && ci.check_agent(&agent("alice")).is_err());
    assert!(ci.check_some_agent(None).is_err() && ci.check_some_agent(Some(&agent("ci-1"))).is_ok());
    assert!(Identity::Anybody.check_some_agent(None).is_ok());
}

#[tokio::test]
async fn who_is_revoked_is_let_go_of_at_once() {
    let register = Register::new(&tokens(vec![entry(1, Role::Agent), entry(2, Role::Agent)]), true);
    let one = register.identify(&shown(&format!("Bearer {}", secret(1).reveal()))).unwrap();
    let mut ended = std::pin::pin!(register.ended(&one));
    assert!(ended.as_mut().now_or_never().is_none());
    register.set(&tokens(vec![entry(1, Role::Agent)]));
    assert!(ended.as_mut().now_or_never().is_none(), "it was another");
    register.set(&tokens(Vec::new()));
    tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap();
}
