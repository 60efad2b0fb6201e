//! The real servers that stores are tested against.

/// What a test needs of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Required {
    /// Where it is.
    At(String),
    /// There is none on this machine; the test says so and does nothing.
    Missing,
}

/// Where a server is that `scripts/services` has started, by the variable that says so.
///
/// Without it a test is skipped, loudly. Under `CI=true` that is a failure.
#[expect(clippy::print_stderr, reason = "whoever runs the tests must see what was not tested")]
pub fn required(variable: &str) -> Required {
    match std::env::var(variable) {
        Ok(at) if !at.is_empty() => Required::At(at),
        Ok(_) | Err(_) => {
            let ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!ci, "{variable} is not set: the server that this test needs is not running");
            eprintln!("SKIPPED: {variable} is not set. Run: eval \"$(scripts/services start)\"");
            Required::Missing
        }
    }
}
