//! The three tables: what they are called, what is in them, and how they are made.

use baton_store::UrlError;

/// The names of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tables {
    /// One row for each election.
    pub(crate) elections: String,
    /// One row for everything else: candidates, histories, fences, the store itself.
    pub(crate) records: String,
    /// What outlives a row of an election that somebody deletes.
    pub(crate) marks: String,
}

/// A column: its name, its type and constraint, and what it is for.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    kind: &'static str,
    about: &'static str,
}

const fn column(name: &'static str, kind: &'static str, about: &'static str) -> Column {
    Column { name, kind, about }
}

const ELECTIONS: [Column; 8] = [
    column("cluster_id", "STRING(64) NOT NULL", "the election"),
    column("leader_id", "STRING(64)", "who leads while the lease lasts, NULL if nobody does"),
    column(
        "lease_expiration",
        "TIMESTAMP",
        "when the lease ends unless it is renewed (for people, Baton asks beat)",
    ),
    column(
        "fencing_token",
        "INT64 NOT NULL",
        "the highest token given, which rises with every change of leader",
    ),
    column("metadata", "JSON", "task, state and terms of the leader (for people)"),
    column("record", "STRING(MAX) NOT NULL", "the whole document, which is the truth"),
    column(
        "version",
        "STRING(160) NOT NULL",
        "other at every change, and a seal of leader, token and record",
    ),
    column("beat", "TIMESTAMP NOT NULL", "when the lease was last renewed, by CURRENT_TIMESTAMP()"),
];

const RECORDS: [Column; 4] = [
    column(
        "record_key",
        "STRING(256) NOT NULL",
        "ELECTION/candidates/AGENT, ELECTION/history, fences/RESOURCE, @store",
    ),
    column("record", "STRING(MAX) NOT NULL", "the record"),
    column("version", "STRING(160) NOT NULL", "other at every change, and a seal of the record"),
    column("beat", "TIMESTAMP NOT NULL", "when its clock was last restarted"),
];

const MARKS: [Column; 4] = [
    column("cluster_id", "STRING(64) NOT NULL", "the election"),
    column("fencing_token", "INT64 NOT NULL", "the highest token ever given"),
    column(
        "lease_ms",
        "INT64 NOT NULL",
        "how long the last lease lasts after a renewal, 0 if nobody holds one",
    ),
    column("gone", "TIMESTAMP", "since when the row of the election is known to have been deleted"),
];

impl Tables {
    /// The tables of a name.
    pub(crate) fn named(name: &str) -> Result<Tables, UrlError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if !first || name.len() > 100 || !name.bytes().all(plain) {
            return Err(UrlError::new(
                format!("`{}` names no table", name.escape_debug()),
                "write ?table=NAME with letters, digits and _",
            ));
        }
        Ok(Tables {
            elections: name.to_string(),
            records: format!("{name}Records"),
            marks: format!("{name}Marks"),
        })
    }

    /// Each table with its columns.
    pub(crate) fn all(&self) -> [(&str, &'static [Column]); 3] {
        [(&self.elections, &ELECTIONS), (&self.records, &RECORDS), (&self.marks, &MARKS)]
    }

    /// The statements that make the tables, as Spanner takes them: it takes no comments.
    pub(crate) fn statements(&self) -> Vec<String> {
        self.all().iter().map(|(table, columns)| statement(table, columns, |_| String::new())).collect()
    }

    /// The same for people, with what each column is for.
    pub(crate) fn explained(&self) -> String {
        let about = [
            "The leader of each election: one row for each.",
            "What else there is: candidates, histories, fences, and what the store knows of itself.",
            "What outlives a row of the first table, so that no token is ever given twice. Keep these rows.",
        ];
        let explained = |(about, (table, columns)): (&str, (&str, &[Column]))| {
            format!("-- {about}\n{};\n", statement(table, columns, |column| format!("  -- {}", column.about)))
        };
        about.into_iter().zip(self.all()).map(explained).collect::<Vec<_>>().join("\n")
    }
}

impl Column {
    /// The type without its length and constraint.
    pub(crate) fn base_type(&self) -> &'static str {
        self.kind.split([' ', '(']).next().unwrap_or(self.kind)
    }
}

fn statement(table: &str, columns: &[Column], note: impl Fn(&Column) -> String) -> String {
    let lines = columns.iter().map(|column| format!("  {} {},{}\n", column.name, column.kind, note(column)));
    let key = columns.first().map_or("", |column| column.name);
    format!("CREATE TABLE IF NOT EXISTS `{table}` (\n{}) PRIMARY KEY ({key})", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_is_made() {
        let tables = Tables::named("Led").unwrap();
        let bare: String = tables
            .explained()
            .lines()
            .map(|line| line.split("--").next().unwrap_or_default().trim_end())
            .filter(|line| !line.is_empty())
            .map(|line| format!("{line}\n"))
            .collect();
        let made: Vec<String> =
            bare.split(';').map(|text| text.trim().to_string()).filter(|text| !text.is_empty()).collect();
        assert_eq!(
            made,
            tables.statements(),
            "and no comment holds a semicolon, at which tools part statements"
        );
        assert!(
            made[0].starts_with("CREATE TABLE IF NOT EXISTS `Led` (\n  cluster_id STRING(64) NOT NULL,\n")
        );
        assert!(made[2].ends_with(") PRIMARY KEY (cluster_id)"));
    }
}
