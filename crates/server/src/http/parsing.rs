//! JSON bodies become values, in bounded time and without keeping other requests waiting.
//!
//! A small body is parsed where it arrived. A larger one is parsed on a thread that may block, and only a few are at the same time; an answer that may be
//! large is written down there too. The time
//! for a body is linear in its length, whatever it says: no number is ever written out in digits.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use serde_json::{Number, Value};
use tokio::sync::Semaphore;

use super::reply::Problem;

/// Larger bodies are parsed on a thread that may block.
const PARSED_IN_PLACE: usize = 16 * 1024;
/// How many larger bodies are parsed at the same time.
const PARSERS: usize = 2;

/// The places for larger bodies that are being parsed.
pub(super) struct Parsers(Arc<Semaphore>);

impl Default for Parsers {
    fn default() -> Parsers {
        Parsers(Arc::new(Semaphore::new(PARSERS)))
    }
}

impl Parsers {
    /// Parses a body where that keeps nobody waiting.
    pub(super) async fn parse<T: Send + 'static>(
        &self,
        body: &Bytes,
        parse: fn(&[u8]) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        match body.len() <= PARSED_IN_PLACE {
            true => parse(body),
            // Apart: most are small.
            false => Box::pin(self.parse_apart(body.clone(), parse)).await,
        }
    }

    async fn parse_apart<T: Send + 'static>(
        &self,
        body: Bytes,
        parse: fn(&[u8]) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.apart(move || parse(&body)).await
    }

    /// Does what may take long on a thread that may block.
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = Arc::clone(&self.0).acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            // The place is taken until the work has ended, also if the caller is gone.
            let _place = place;
            work()
        });
        done.await.unwrap_or_else(|error| {
            Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "system",
                format!("the body cannot be parsed or written: {error}"),
                "this is a fault of the server",
            ))
        })
    }
}

/// The object that a body is.
pub(super) fn object<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // An array would be taken for an object whose fields come in their order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::invalid("the body is not an object", "see /openapi.json"));
    }
    parsed(body).map_err(|error| {
        Problem::invalid(format!("the body is not what this takes: {error}"), "see /openapi.json")
    })
}

/// What a text says. `1.0` is a whole number in JSON's schemas, and some languages write it so.
pub(super) fn parsed<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text).or_else(|error| {
        let mut value: Value = serde_json::from_slice(text)?;
        if make_whole(&mut value) { serde_json::from_value(value) } else { Err(error) }
    })
}

/// Replaces floats without a fraction by integers, where an integer can be that large. Returns whether there were any.
fn make_whole(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
            Some(whole) => {
                *number = whole;
                true
            }
            None => false,
        },
        Value::Array(array) => array.iter_mut().fold(false, |made, value| make_whole(value) | made),
        Value::Object(object) => object.values_mut().fold(false, |made, value| make_whole(value) | made),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// The integer that a float is. Each float between these bounds that has no fraction is exactly one. The lower bound itself is
/// none: an integer that is too small for 64 bits is read as that float too.
fn whole(float: f64) -> Option<Number> {
    const ABOVE_U64: f64 = 18_446_744_073_709_551_616.0;
    const BELOW_I64: f64 = -9_223_372_036_854_775_808.0;
    if float.fract() != 0.0 || float <= BELOW_I64 || float >= ABOVE_U64 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was compared with the bounds"
    )]
    let whole = if float < 0.0 { Number::from(float as i64) } else { Number::from(float as u64) };
    Some(whole)
}

/// A list of `MOST` entries or fewer. A longer one is refused when the first entry too many is seen.
pub(super) struct AtMost<T, const MOST: usize>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for AtMost<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AtMost<T, MOST>, D::Error> {
        struct Entries<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Entries<T, MOST> {
            type Value = Vec<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "an array of at most {MOST} entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = entries.next_element()? {
                    if all.len() == MOST {
                        return Err(A::Error::invalid_length(MOST + 1, &self));
                    }
                    all.push(entry);
                }
                Ok(all)
            }
        }

        deserializer.deserialize_seq(Entries::<T, MOST>(PhantomData)).map(AtMost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_a_fraction_of_nothing() {
        let exact = ("1817940856683415.0", 1_817_940_856_683_415);
        for (text, number) in [("7.0", 7), ("1e3", 1_000), ("9007199254740992.0", 1 << 53), exact] {
            assert_eq!(parsed::<u64>(text.as_bytes()).unwrap(), number, "{text}");
        }
        assert_eq!(parsed::<i64>(b"-9223372036854775808").unwrap(), i64::MIN);
        assert!(parsed::<i64>(b"-9223372036854775809").is_err(), "it is not taken for the least integer");
        assert_eq!(whole(18_446_744_073_709_549_568.0), Some(Number::from(u64::MAX - 2_047)));
        assert_eq!(
            (whole(18_446_744_073_709_551_616.0), whole(f64::NAN), whole(f64::INFINITY)),
            (None, None, None)
        );
        for other in ["7.5", "-7.0", "1e30", "1e308", "18446744073709551616.0", "\"7\""] {
            assert!(parsed::<u64>(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn a_list_that_is_too_long_is_refused_at_the_first_entry_too_many() {
        let three = |text: &str| serde_json::from_str::<AtMost<u8, 3>>(text).map(|list| list.0);
        assert_eq!(three("[1,2,3]").unwrap(), [1, 2, 3]);
        // What comes after it is not even read.
        assert!(three("[1,2,3,4,???").unwrap_err().to_string().contains("at most 3 entries"));
    }

    #[tokio::test]
    async fn large_bodies_are_parsed_on_other_threads() {
        let on_this_thread = |_: &[u8]| Ok(std::thread::current().id());
        let (parsers, here) = (Parsers::default(), std::thread::current().id());
        let small = Bytes::from(vec![b' '; PARSED_IN_PLACE]);
        assert_eq!(parsers.parse(&small, on_this_thread).await.unwrap(), here);
        let large = Bytes::from(vec![b' '; PARSED_IN_PLACE + 1]);
        assert_ne!(parsers.parse(&large, on_this_thread).await.unwrap(), here);
        assert_eq!(parsers.0.available_permits(), PARSERS);
    }
}
