//! How long texts may be.

use alloc::format;

use baton_election::Refusal;

/// The longest title, in bytes.
pub const MAX_TITLE_BYTES: usize = 256;
/// The longest note, reason or key, in bytes.
pub const MAX_NOTE_BYTES: usize = 1_024;
/// The longest body of a task or a proposal, and the longest result, in bytes. More belongs into a file or a *state* value.
pub const MAX_BODY_BYTES: usize = 16 * 1024;

/// Refuses text that is too long.
pub(crate) fn check(what: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Refusal::invalid(
        format!("the {what} is {} bytes long; at most {most} are allowed", text.len()),
        "say it shorter, or say where the rest lies",
    ))
}

/// Refuses a title that is empty, too long, or more than one line.
pub(crate) fn check_title(title: &str) -> Result<(), Refusal> {
    if title.trim().is_empty() || title.contains('\n') {
        return Err(Refusal::invalid("a title is one line of text", "say in a few words what it is"));
    }
    check("title", title, MAX_TITLE_BYTES)
}
