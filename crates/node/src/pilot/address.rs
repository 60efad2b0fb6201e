//! Addresses of the Pilot network: `N:NNNN.HHHH.LLLL`, the network in decimal and again in hexadecimal, then the node.

use std::fmt;
use std::str::FromStr;

/// Where a node of the Pilot network is, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PilotAddress {
    network: u16,
    node: u32,
}

/// A text that is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPilotAddress;

impl PilotAddress {
    /// How many bytes it has where daemons are talked to.
    pub(crate) const BYTES: usize = 6;

    /// The number of the node, by which the network's registry knows it.
    pub const fn node(self) -> u32 {
        self.node
    }

    pub(crate) fn to_bytes(self) -> [u8; PilotAddress::BYTES] {
        let ([a, b], [c, d, e, f]) = (self.network.to_be_bytes(), self.node.to_be_bytes());
        [a, b, c, d, e, f]
    }

    pub(crate) fn from_bytes([a, b, c, d, e, f]: [u8; PilotAddress::BYTES]) -> PilotAddress {
        PilotAddress { network: u16::from_be_bytes([a, b]), node: u32::from_be_bytes([c, d, e, f]) }
    }
}

impl fmt::Display for PilotAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (network, high, low) = (self.network, self.node >> 16, self.node & 0xffff);
        write!(f, "{network}:{network:04X}.{high:04X}.{low:04X}")
    }
}

impl FromStr for PilotAddress {
    type Err = InvalidPilotAddress;

    fn from_str(text: &str) -> Result<PilotAddress, InvalidPilotAddress> {
        let group = |text: Option<&str>| match text {
            Some(text) if text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                u16::from_str_radix(text, 16).map_err(|_| InvalidPilotAddress)
            }
            Some(_) | None => Err(InvalidPilotAddress),
        };
        let (decimal, rest) = text.split_once(':').ok_or(InvalidPilotAddress)?;
        let mut groups = rest.split('.');
        let (network, high, low) = (group(groups.next())?, group(groups.next())?, group(groups.next())?);
        let address = PilotAddress { network, node: u32::from(high) << 16 | u32::from(low) };
        // One address has one spelling, but for the case of the letters.
        if groups.next().is_some() || decimal != network.to_string() {
            return Err(InvalidPilotAddress);
        }
        Ok(address)
    }
}

impl fmt::Display for InvalidPilotAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an address of the Pilot network is written like 0:0000.0000.0002; `pilotctl info` shows it",
        )
    }
}

impl std::error::Error for InvalidPilotAddress {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_the_network_writes_them() {
        for (text, bytes) in [
            ("0:0000.0000.0002", [0, 0, 0, 0, 0, 2]),
            ("1:0001.00A3.F291", [0, 1, 0, 0xa3, 0xf2, 0x91]),
            ("65535:FFFF.FFFF.FFFF", [0xff; 6]),
        ] {
            let address = PilotAddress::from_bytes(bytes);
            assert_eq!((address.to_string().as_str(), text.parse()), (text, Ok(address)));
            assert_eq!(address.to_bytes(), bytes);
        }
        assert_eq!("0:0000.0000.00ff".parse::<PilotAddress>().map(PilotAddress::node), Ok(255));
        for odd in [
            "",
            "2",
            "0:0.0.2",
            "0:0001.0000.0002",
            "0:0000.0002",
            "0:0000.0000.0002.0000",
            "+0:0000.0000.0002",
        ] {
            assert_eq!(odd.parse::<PilotAddress>(), Err(InvalidPilotAddress), "{odd}");
        }
    }
}
