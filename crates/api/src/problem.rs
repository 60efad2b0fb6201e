//! Errors: `application/problem+json` (RFC 9457).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Why a request was not carried out.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProblemResponse<'a> {
    /// The facts of a refusal. A field below takes the place of a fact of the same name.
    #[serde(flatten)]
    pub facts: Cow<'a, Map<String, Value>>,
    /// Always `about:blank`.
    pub r#type: Cow<'a, str>,
    /// The status in words.
    pub title: Option<Cow<'a, str>>,
    /// The status of the response.
    pub status: u16,
    /// A stable word for the kind of error. The command line prints the same.
    pub code: Cow<'a, str>,
    /// What is wrong.
    pub detail: Cow<'a, str>,
    /// What to do about it.
    pub hint: Cow<'a, str>,
}
