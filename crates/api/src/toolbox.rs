//! Pages of the items in a toolbox.

use serde::{Deserialize, Serialize};

/// The most items of one page.
pub const MAX_PAGE: usize = 1_000;

/// A part of the items of one kind, in the order of their names.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ItemPage<T> {
    /// The items.
    pub items: Vec<T>,
    /// There are more after the last one.
    pub more: bool,
}
