//! Pictures of numbers: small SVG plots and the page that holds them.
//!
//! Assumes nothing but finite numbers: a point that is not finite, or not positive on a logarithmic axis, is left out.
//! Guarantees that every shape that stands for a number carries it as text (`data-x`, `data-y`, `data-value`), so that a
//! picture can be checked against its table; that all text is escaped; that nothing is fetched and nothing is run; and that
//! colours never stand alone: each series has a form of its own too. Does **not** guarantee the exact width of text: fonts
//! differ, and widths are estimated from above.

mod axis;
mod bars;
mod legend;
mod lines;
mod page;
mod svg;
mod unit;

pub use axis::{Axis, Scale};
pub use bars::{Bar, BarGroup, BarPlot};
pub use legend::Ink;
pub use lines::{LinePlot, PointLabel, Series, Stroke};
pub use page::{Figure, Page, Plot, Section, Table};
pub use svg::{Setting, escape};
pub use unit::Unit;

pub(crate) use legend::width;
pub(crate) use unit::digits;
