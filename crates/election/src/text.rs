//! What is written as text and read from it without a copy in between.

use core::fmt;
use core::marker::PhantomData;

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// Reads what a text stands for.
pub(crate) fn read<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    what: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(Reader { what, parse, read: PhantomData })
}

struct Reader<P, T> {
    what: &'static str,
    parse: P,
    read: PhantomData<T>,
}

impl<T, E: fmt::Display, P: Fn(&str) -> Result<T, E>> Visitor<'_> for Reader<P, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<F: Error>(self, text: &str) -> Result<T, F> {
        (self.parse)(text).map_err(F::custom)
    }
}
