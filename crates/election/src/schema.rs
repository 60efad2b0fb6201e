//! How what has a text of its own looks in JSON Schema. Everything else derives it.
//!
//! A pattern says no less than what is read, but for what a pattern cannot say: a name with a reserved segment is refused although it fits.

use alloc::borrow::Cow;
use alloc::format;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::command::MAX_CONTACT_BYTES;
use crate::id::{ContentHash, Incarnation, KeyHash, LeaseKey, StoreId, TokenId};
use crate::name::{AgentName, ElectionName, ItemName, MAX_NAME_BYTES, ResourceName};
use crate::operator::PublicKey;
use crate::policy::MAX_CAPABILITY_BYTES;
use crate::time::{Span, WallTime};
use crate::tokens::{CertificateName, MAX_PROOF_BYTES, Pattern, Subject};

/// One segment of a name: no `..`, nothing before or after which a `.` would stand alone, no `-` in front.
const SEGMENT: &str = r"[a-z0-9_]([a-z0-9_-]|\.[a-z0-9_-])*";

/// Characters of a URI, of what precedes its first colon, and of its host; and those within a subject. None is a `*`, which stands at the end alone.
const URI: &str = "[!-)+-~]";
const SCHEME: &str = "[!-)+-9;-~]";
const HOST: &str = "[!-)+-.0-~]";
const SUBJECT: &str = "[ -)+-~]";

macro_rules! texts {
    ($($type:ty, $name:literal, $description:literal, $schema:expr;)*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema: Schema = $schema;
                schema.insert("description".into(), $description.into());
                schema
            }
        }
    )*};
}

fn pattern(pattern: &str) -> Schema {
    json_schema!({ "type": "string", "pattern": pattern })
}

fn name(pattern: &str) -> Schema {
    json_schema!({ "type": "string", "maxLength": MAX_NAME_BYTES, "pattern": pattern })
}

fn proof(pattern: &str) -> Schema {
    json_schema!({ "type": "string", "maxLength": MAX_PROOF_BYTES, "pattern": pattern })
}

fn path() -> Schema {
    name(&format!("^{SEGMENT}(/{SEGMENT})*$"))
}

fn hexadecimal(bytes: usize) -> Schema {
    pattern(&format!("^[0-9a-fA-F]{{{}}}$", 2 * bytes))
}

/// A signature, as text.
pub(crate) struct Signature;

/// One thing that an agent can do.
pub(crate) struct Capability;

/// Where a leader is reached.
pub(crate) struct Contact;

texts! {
    ElectionName, "ElectionName", "The name of an election", path();
    ResourceName, "ResourceName", "The name of something that only a leader may change", path();
    AgentName, "AgentName", "An agent, which may lead", name(&format!("^{SEGMENT}$"));
    ItemName, "ItemName", "A task, a proposal, a quota or a value", name(&format!("^{SEGMENT}$"));
    Incarnation, "Incarnation", "One life of an agent: random, minted at its start", hexadecimal(8);
    LeaseKey, "LeaseKey", "The secret that proves to be the holder of a lease", hexadecimal(16);
    KeyHash, "KeyHash", "SHA-256 of the bytes of a lease key", hexadecimal(32);
    StoreId, "StoreId", "Which store this is", hexadecimal(8);
    TokenId, "TokenId", "By what an access token is known", hexadecimal(6);
    Pattern, "Pattern", "A name, in which * stands for any characters", name("^[a-z0-9._/*-]+$");
    CertificateName, "CertificateName", "A DNS name or a URI in a client certificate; a URI may end in /*", proof(&format!("^([A-Za-z0-9._-]+|{SCHEME}+:{URI}*|{SCHEME}+://{HOST}+/({URI}*/)?[*])$"));
    Subject, "Subject", "The subject of a JWT; it may end in * after / or :", proof(&format!("^({URI}({SUBJECT}*{URI})?|({URI}{SUBJECT}*)?[/:][*])$"));
    ContentHash, "ContentHash", "A SHA-256", hexadecimal(32);
    PublicKey, "PublicKey", "An operator's Ed25519 key", hexadecimal(32);
    Signature, "Signature", "An Ed25519 signature", hexadecimal(64);
    Contact, "Contact", "Where a leader is reached: most often a URL", pattern(&format!("^[!-~]{{1,{MAX_CONTACT_BYTES}}}$"));
    Capability, "Capability", "Something that an agent can do", pattern(&format!("^[!-~]{{1,{MAX_CAPABILITY_BYTES}}}$"));
}

/// As it is read; written, a length may also have no end.
const LENGTH: &str = r"0|([0-9]{1,5}(\.[0-9]{1,9})?(ns|us|ms|s|m|h|d)){1,3}";

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let more = if generator.contract().is_serialize() { "|for ever" } else { "" };
        let pattern = format!("^({LENGTH}{more})$");
        json_schema!({ "type": "string", "pattern": pattern, "description": "A length of time, such as 500ms, 30s, 1m30s, 2h" })
    }
}

/// Any day that each month has: a pattern does not know February.
const TIME: &str = r"^(19[789][0-9]|20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{3})?Z$";

impl JsonSchema for WallTime {
    fn schema_name() -> Cow<'static, str> {
        "WallTime".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let description = "A time for people: RFC 3339 in UTC";
        match generator.contract().is_serialize() {
            true => json_schema!({ "type": "string", "format": "date-time", "description": description }),
            false => json_schema!({ "type": "string", "pattern": TIME, "description": description }),
        }
    }
}

/// A state of any form.
pub(crate) struct AnyJson;

impl JsonSchema for AnyJson {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}
