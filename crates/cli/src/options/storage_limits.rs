//! How much a server keeps.

use baton_server::Quotas;
use clap::Args;

/// The most that a server keeps. 0 for no limit.
#[derive(Args, Debug)]
#[command(next_help_heading = "Storage limits (0 for no limit)")]
pub(crate) struct StorageLimits {
    /// The most elections
    #[arg(long, value_name = "N", default_value_t = Quotas::default().elections)]
    limit_elections: u64,
    /// The most elections that were begun with one access token
    #[arg(long, value_name = "N", default_value_t = Quotas::default().token_elections)]
    limit_token_elections: u64,
    /// The most bytes of elections, items and fences, such as 512MiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    limit_bytes: u64,
    /// The most bytes of what belongs to the elections that were begun with one access token
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    limit_token_bytes: u64,
}

impl StorageLimits {
    pub(crate) fn quotas(&self) -> Quotas {
        Quotas {
            elections: self.limit_elections,
            bytes: self.limit_bytes,
            token_elections: self.limit_token_elections,
            token_bytes: self.limit_token_bytes,
        }
    }
}

/// A number of bytes.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
    bytes.filter(|_| unit > 0).ok_or_else(|| "write a size such as 64KiB, 512MiB or 1GiB, or 0".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let sizes = [("0", 0), ("7", 7), ("64KiB", 65_536), ("512MiB", 512 << 20), ("1GiB", 1 << 30)];
        assert!(sizes.iter().all(|(text, bytes)| size(text) == Ok(*bytes)));
        for odd in ["", "x", "1GB", "1 GiB", "-1", "1.5GiB", "99999999999GiB"] {
            assert!(size(odd).is_err(), "{odd}");
        }
    }
}
