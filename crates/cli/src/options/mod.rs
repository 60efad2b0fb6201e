//! Groups of options that several commands have, or that are too many for the file of one.

pub(crate) mod bid;
pub(crate) mod break_glass;
#[cfg(any(feature = "guard", feature = "server"))]
pub(crate) mod certificate;
#[cfg(feature = "server")]
pub(crate) mod cluster;
#[cfg(feature = "server")]
pub(crate) mod founders;
pub(crate) mod jwt;
pub(crate) mod listen;
pub(crate) mod notify;
#[cfg(feature = "server")]
pub(crate) mod server_access;
#[cfg(feature = "server")]
pub(crate) mod storage_limits;
#[cfg(feature = "server")]
pub(crate) mod thresholds;
#[cfg(feature = "server")]
pub(crate) mod webhooks;
