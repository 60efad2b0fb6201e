//! Pages of the items in a toolbox.

/// The most items of one page.
pub const MAX_PAGE: usize = 1_000;
