//! The members of a group as people write them, and the way from one list to another.
//!
//! A member is `ID=HOST:PORT`, or `ID=0:0000.0000.0002` on the Pilot network, with `,witness` or `,priority=N` behind it; a file has one to a line, and `#` begins a comment. The way
//! from the list that counts to the list that is wanted is one member at a time, in an order in which no list between is worse than
//! both: who may lead comes first, who goes goes last, and the member that acts goes last of all.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use baton_peer::{Group, Member, NodeId};

use crate::pilot::PilotAddress;
use crate::tcp::is_host_and_port;
use crate::transport::Peer;

/// The largest file that is read.
pub(crate) const MAX_FILE_BYTES: u64 = 64 * 1024;

/// A member and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMember {
    /// What kind of member.
    pub member: Member,
    /// Where it is.
    pub address: String,
}

/// Why a text names no member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidListedMember(String);

impl fmt::Display for InvalidListedMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidListedMember {}

impl FromStr for ListedMember {
    type Err = InvalidListedMember;

    fn from_str(text: &str) -> Result<ListedMember, InvalidListedMember> {
        let shown: String = text.chars().take(80).collect();
        let wrong = |why: &str| {
            let forms = "write ID=HOST:PORT, such as 2=10.0.0.2:7000,witness, or 2=0:0000.0000.0002 on the Pilot network";
            InvalidListedMember(format!("`{shown}`: {why}; {forms}"))
        };
        let mut parts = text.split(',').map(str::trim);
        let (id, address) = parts
            .next()
            .and_then(|first| first.split_once('='))
            .ok_or_else(|| wrong("there is no `=` between the id and the address"))?;
        let id: NodeId =
            id.trim().parse().map_err(|error: baton_peer::InvalidNodeId| wrong(&error.to_string()))?;
        let address = address.trim();
        let on_pilot = address.parse::<PilotAddress>().is_ok();
        let at = address.parse::<std::net::SocketAddr>();
        if at.as_ref().is_ok_and(|at| at.port() == 0) {
            return Err(wrong("nobody can be dialled at port 0"));
        }
        if !on_pilot && at.is_err() && !is_host_and_port(address) {
            return Err(wrong("the address is none"));
        }
        let mut member = Member::plain(id);
        for part in parts {
            match part.split_once('=') {
                None if part == "witness" => member.witness = true,
                Some(("priority", number)) => {
                    member.priority =
                        number.parse().map_err(|_| wrong("a priority is a number from 0 to 255"))?;
                }
                Some(_) | None => return Err(wrong("behind the address comes `witness` or `priority=N`")),
            }
        }
        Ok(ListedMember { member, address: address.to_string() })
    }
}

impl ListedMember {
    /// Where it is, for a transport.
    pub fn peer(&self) -> Peer {
        Peer { id: self.member.id, address: self.address.clone() }
    }
}

/// The members in a file.
pub fn parse_file(text: &str) -> Result<Vec<ListedMember>, InvalidListedMember> {
    let mut listed = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at =
            |error: InvalidListedMember| InvalidListedMember(format!("line {}: {}", number + 1, error.0));
        listed.push(line.parse::<ListedMember>().map_err(at)?);
    }
    if listed.is_empty() {
        return Err(InvalidListedMember("it names no member".to_string()));
    }
    check_places(&listed)?;
    // Whether these can be a group is found out here, before anybody acts on it.
    Group::founded(listed.iter().map(|listed| listed.member).collect())
        .map_err(|error| InvalidListedMember(error.to_string()))?;
    Ok(listed)
}

/// Refuses two members at one address: whoever dials it would find the same one twice.
pub fn check_places(listed: &[ListedMember]) -> Result<(), InvalidListedMember> {
    let mut places: BTreeMap<&str, NodeId> = BTreeMap::new();
    for ListedMember { member, address } in listed {
        match places.insert(address, member.id) {
            Some(other) if other != member.id => {
                let text = format!("members {other} and {} are both at {address}", member.id);
                return Err(InvalidListedMember(text));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// The next list on the way, one step from the current one; none at the end of the way.
pub(crate) fn step_towards(current: &Group, wanted: &[Member], me: NodeId) -> Option<Vec<Member>> {
    let wanted: BTreeMap<NodeId, Member> = wanted.iter().map(|member| (member.id, *member)).collect();
    let mut next: BTreeMap<NodeId, Member> =
        current.members().iter().map(|member| (member.id, *member)).collect();
    let differs = |member: &&Member| current.member(member.id) != Some(*member);
    let changed: Vec<Member> = wanted.values().filter(differs).copied().collect();
    let able = changed.iter().find(|member| !member.witness);
    if let Some(member) = able.or_else(|| changed.first()) {
        next.insert(member.id, *member);
        return Some(next.into_values().collect());
    }
    let ids: Vec<NodeId> = wanted.into_keys().collect();
    without_one(current, &ids, |id| id != me).or_else(|| without_one(current, &ids, |_| true))
}

/// The current list without a member that is not wanted, and is not this one: the way on where a member that is gone must make room before
/// another can come.
pub(crate) fn step_aside(current: &Group, wanted: &[Member], me: NodeId) -> Option<Vec<Member>> {
    let ids: Vec<NodeId> = wanted.iter().map(|member| member.id).collect();
    without_one(current, &ids, |id| id != me)
}

fn without_one(current: &Group, wanted: &[NodeId], may_go: impl Fn(NodeId) -> bool) -> Option<Vec<Member>> {
    let gone = current.members().iter().map(|member| member.id);
    let gone = gone.filter(|id| !wanted.contains(id)).find(|id| may_go(*id))?;
    Some(current.members().iter().filter(|member| member.id != gone).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> NodeId {
        NodeId::new(number).unwrap()
    }

    #[test]
    fn members_are_read_as_people_write_them() {
        let listed: ListedMember = "3=node-3.example:7000, witness,priority=9".parse().unwrap();
        assert_eq!(listed.member, Member { id: id(3), witness: true, priority: 9 });
        assert_eq!(listed.address, "node-3.example:7000");
        assert_eq!("2=[::1]:70".parse::<ListedMember>().unwrap().member, Member::plain(id(2)));
        for odd in
            ["", "2", "2=", "2=host", "0=h:1", "2=h:0", "2=h:1,wit", "2=h:1,priority=256", "x=h:1", "2=h:1,"]
        {
            let error = odd.parse::<ListedMember>().unwrap_err().to_string();
            assert!(error.contains("ID=HOST:PORT"), "{odd}: {error}");
        }
    }

    #[test]
    fn a_file_has_lines_and_comments_and_must_be_a_group() {
        let text = "# ours\n1=127.0.0.1:1\n\n 2=127.0.0.1:2,witness # the small one\n";
        assert_eq!(parse_file(text).unwrap().len(), 2);
        assert!(parse_file("1=a:1\n2=b:x").unwrap_err().to_string().starts_with("line 2: "));
        for odd in ["", "1=a:1\n1=a:2", "1=a:1,witness"] {
            assert!(parse_file(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn the_way_is_one_step_at_a_time_and_never_without_somebody_who_may_lead() {
        let member = |number, witness| Member { id: id(number), witness, priority: 0 };
        let lists: Vec<Vec<Member>> = vec![
            vec![member(1, false), member(2, true)],
            vec![member(1, true), member(2, false)],
            vec![member(3, false), member(4, false), member(5, false)],
            vec![member(1, false)],
            vec![member(1, false), member(2, false), member(3, true)],
        ];
        for from in &lists {
            for to in &lists {
                let mut current = Group::founded(from.clone()).unwrap();
                let wanted = Group::founded(to.clone()).unwrap();
                let mut steps = 0;
                while let Some(next) = step_towards(&current, to, id(1)) {
                    let next = Group::founded(next).unwrap();
                    assert!(next.is_one_step_from(&current));
                    let goes = current.member(id(1)).is_some() && next.member(id(1)).is_none();
                    assert!(!goes || next.members() == wanted.members(), "who acts goes last");
                    current = next;
                    steps += 1;
                    assert!(steps < 20, "no end");
                }
                assert_eq!(current.members(), wanted.members());
            }
        }
    }
    #[test]
    fn who_is_not_wanted_makes_room_and_who_acts_stays() {
        let plain =
            |numbers: &[u16]| -> Vec<Member> { numbers.iter().map(|n| Member::plain(id(*n))).collect() };
        let current = Group::founded(plain(&[1, 2, 3])).unwrap();
        assert_eq!(step_aside(&current, &plain(&[1, 2, 4]), id(1)), Some(plain(&[1, 2])));
        assert_eq!(
            step_aside(&current, &plain(&[2, 3, 4]), id(1)),
            None,
            "only the one who acts is not wanted"
        );
        assert_eq!(step_aside(&current, &plain(&[1, 2, 3, 4]), id(1)), None);
    }
}
