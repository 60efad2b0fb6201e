//! What the things of one store are called in the database.
//!
//! Names always carry their schema: what a role's search path says must not decide which of two tables two candidates
//! compete in.

use baton_store::UrlError;

/// The longest name with its schema, so that every name made from it, and the channel, fits into the server's 63 bytes.
const MAX_BYTES: usize = 54;

/// The layout, with places for the names.
const LAYOUT: &str = include_str!("layout.sql");

/// The names of one store, quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The schema and the table, as they are written in a URL.
    pub(crate) plain: String,
    /// The table of records.
    pub(crate) table: String,
    /// The table of marks.
    pub(crate) marks: String,
    /// The function that tells of changes.
    pub(crate) changed: String,
    /// The function for users' transactions.
    pub(crate) fence: String,
}

impl Names {
    /// What `TABLE` or `SCHEMA.TABLE` names. Without a schema it is `public`.
    pub(crate) fn parse(text: &str) -> Result<Names, UrlError> {
        let (schema, table) = text.split_once('.').unwrap_or(("public", text));
        for name in [schema, table] {
            let mut chars = name.chars();
            let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            if !first || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(UrlError::new(
                    format!("`{}` does not name a table", text.escape_debug()),
                    "write ?table=NAME or ?table=SCHEMA.NAME, of letters, digits and `_`, spelt as in the database",
                ));
            }
        }
        let plain = format!("{schema}.{table}");
        if plain.len() > MAX_BYTES {
            return Err(UrlError::new(
                format!("`{plain}` is {} bytes long", plain.len()),
                format!("at most {MAX_BYTES} are allowed for a schema and a table together"),
            ));
        }
        let quoted = |tail: &str| format!("\"{schema}\".\"{table}{tail}\"");
        Ok(Names {
            table: quoted(""),
            marks: quoted("_marks"),
            changed: quoted("_changed"),
            fence: quoted("_fence"),
            plain,
        })
    }

    /// The channel that changes are told on.
    pub(crate) fn channel(&self) -> &str {
        &self.plain
    }

    /// A text with the names in their places.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("@table@", &self.table)
            .replace("@marks@", &self.marks)
            .replace("@changed@", &self.changed)
            .replace("@fence@", &self.fence)
    }

    /// What a role that takes part needs.
    pub(crate) fn grants(&self, role: &str) -> String {
        let (schema, Names { table, marks, .. }) = (self.schema(), self);
        format!(
            "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT, INSERT, UPDATE ON {table}, {marks} TO {role}"
        )
    }

    /// The schema, quoted.
    pub(crate) fn schema(&self) -> &str {
        self.table.split('.').next().unwrap_or_default()
    }

    /// What is to be done after the layout, as comments for whoever runs it by hand.
    pub(crate) fn afterwards(&self, url: &str) -> String {
        let (schema, fence, grants) = (self.schema(), &self.fence, self.grants("AGENT"));
        format!(
            "\n-- What each role that takes part needs, for AGENT its name:\n-- {grants};\n\
             -- What a role needs that calls the fence in transactions of its own:\n\
             -- GRANT USAGE ON SCHEMA {schema} TO AGENT; GRANT EXECUTE ON FUNCTION {fence}(text, text, bigint) TO AGENT;\n\
             -- Then, as the operator: baton init --store '{url}'\n\
             -- It makes the operator's key, which signs appoint, depose, pause, resume, approve, reject and policy, and\n\
             -- writes its public half into {}.\n",
            self.table
        )
    }

    /// What an administrator runs before the first use.
    pub(crate) fn layout(&self) -> String {
        self.fill(LAYOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_schema_and_is_quoted() {
        let names = Names::parse("baton").unwrap();
        assert_eq!((names.plain.as_str(), names.table.as_str()), ("public.baton", "\"public\".\"baton\""));
        assert_eq!(Names::parse("Ops.b_1").unwrap().marks, "\"Ops\".\"b_1_marks\"");
        assert!(!names.layout().contains('@'), "every place of the layout is filled");
        let afterwards = names.afterwards("postgres://h/d?table=baton&sslmode=disable");
        assert!(afterwards.lines().all(|line| line.is_empty() || line.starts_with("--")), "{afterwards}");
        assert!(
            afterwards.contains("GRANT SELECT, INSERT, UPDATE ON \"public\".\"baton\", "),
            "{afterwards}"
        );
        assert!(afterwards.contains("baton init --store 'postgres://h/d?table=baton&sslmode=disable'"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for odd in ["", ".", "a.", "a.b.c", "a b", "a\"b", "a;drop", "1a", "ä", &"a".repeat(60)] {
            assert!(Names::parse(odd).is_err(), "{odd}");
        }
    }
}
