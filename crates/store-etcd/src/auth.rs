//! Authentication: a name and a password are exchanged for a token, which every request carries until it has run out.

use tokio::sync::Mutex;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

use crate::fault::{Fault, Meaning};
use crate::members::MemberHandle;
use crate::open::User;
use crate::wire::etcdserverpb::AuthenticateRequest;
use crate::wire::etcdserverpb::auth_client::AuthClient;

/// A token as it is sent.
pub(crate) type Token = MetadataValue<Ascii>;

/// A user, and the token if there is one.
pub(crate) struct Auth {
    user: User,
    held: Mutex<Held>,
}

enum Held {
    Nothing,
    Token(Token),
    /// etcd does not ask who asks.
    NotNeeded,
}

impl Auth {
    /// A user without a token.
    pub(crate) fn of(user: User) -> Auth {
        Auth { user, held: Mutex::new(Held::Nothing) }
    }

    /// The token, or nothing where none is needed. What fails here was not sent.
    pub(crate) async fn token(&self, member: &MemberHandle) -> Result<Option<Token>, Fault> {
        let mut held = self.held.lock().await;
        match &*held {
            Held::Token(token) => return Ok(Some(token.clone())),
            Held::NotNeeded => return Ok(None),
            Held::Nothing => {}
        }
        let fresh = self.authenticate(member).await?;
        *held = fresh.clone().map_or(Held::NotNeeded, Held::Token);
        Ok(fresh)
    }

    /// Forgets a token that was refused, unless there is a newer one.
    pub(crate) async fn forget(&self, refused: Option<&Token>) {
        let mut held = self.held.lock().await;
        let same = match &*held {
            Held::Token(token) => refused == Some(token),
            Held::NotNeeded => refused.is_none(),
            Held::Nothing => false,
        };
        if same {
            *held = Held::Nothing;
        }
    }

    async fn authenticate(&self, member: &MemberHandle) -> Result<Option<Token>, Fault> {
        let not_sent = |why: String| Fault::NotSent { member: member.name.clone(), why };
        let request =
            AuthenticateRequest { name: self.user.name.clone(), password: self.user.password.clone() };
        let mut client: AuthClient<Channel> = AuthClient::new(member.channel.clone());
        match client.authenticate(Request::new(request)).await {
            Ok(answer) => match answer.into_inner().token.parse() {
                Ok(token) => Ok(Some(token)),
                Err(_) => Err(not_sent("etcd gave a token that cannot be sent".to_string())),
            },
            Err(status) if status.message().contains("authentication is not enabled") => Ok(None),
            Err(status) => {
                let fault = Fault::said(&member.name, status);
                match fault.meaning() {
                    Meaning::Refused(_) => Err(fault),
                    Meaning::Elsewhere
                    | Meaning::TokenIsOld
                    | Meaning::NoUser
                    | Meaning::LeaseIsGone
                    | Meaning::LeaseIsThere
                    | Meaning::Busy(_)
                    | Meaning::Unclear => Err(not_sent(fault.to_string())),
                }
            }
        }
    }
}
