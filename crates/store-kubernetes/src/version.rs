//! What a reading hands to the swap that follows it, in the text of a version.

use baton_store::Version;

/// The version of a Lease: its resourceVersion, and what a swap must know of it beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseVersion {
    /// The resourceVersion.
    pub(crate) resource: u64,
    /// What the transitions are counted from.
    pub(crate) base: u64,
    /// Another client holds the Lease.
    pub(crate) foreign: bool,
}

impl LeaseVersion {
    /// As the engine carries it.
    pub(crate) fn to_version(self) -> Version {
        let LeaseVersion { resource, base, foreign } = self;
        Version::new(&format!("{resource}+{base}{}", if foreign { "+foreign" } else { "" }))
    }

    /// What the engine carried; none if no Lease can have that version.
    pub(crate) fn parse(version: &Version) -> Option<LeaseVersion> {
        let (resource, rest) = version.as_str().split_once('+')?;
        let (base, foreign) = match rest.split_once('+') {
            None => (rest, false),
            Some((base, "foreign")) => (base, true),
            Some(_) => return None,
        };
        Some(LeaseVersion { resource: resource.parse().ok()?, base: base.parse().ok()?, foreign })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_survives_its_text() {
        for version in [
            LeaseVersion { resource: 12, base: 3, foreign: false },
            LeaseVersion { resource: u64::MAX, base: 0, foreign: true },
        ] {
            assert_eq!(LeaseVersion::parse(&version.to_version()), Some(version));
        }
        for odd in ["", "12", "1:none", "1+", "a+1", "1+2+else", "1+2+foreign+"] {
            assert_eq!(LeaseVersion::parse(&Version::new(odd)), None, "{odd}");
        }
    }
}
