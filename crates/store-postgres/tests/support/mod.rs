//! A schema of its own in the real server, and hands to reach into it.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

pub mod private;
pub mod proxy;

use std::sync::Arc;

use baton_store::conformance::{Required, required};
use baton_store::{Store, StoreError, StoreUrl};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A schema with the layout in it, removed in the end.
pub struct TestSchema {
    /// Where the store finds the server.
    pub server: String,
    /// Where hands find it: not through a pooler, which would keep what they set.
    direct: String,
    pub schema: String,
}

impl TestSchema {
    /// A schema in the server that the variable names; none if there is no server.
    pub async fn at(variable: &str) -> Option<TestSchema> {
        match (required(variable), required("BATON_TEST_POSTGRES")) {
            (Required::At(server), Required::At(direct)) => Some(TestSchema::laid_out(server, direct).await),
            (Required::At(_) | Required::Missing, Required::At(_) | Required::Missing) => None,
        }
    }

    /// A schema in PostgreSQL itself.
    pub async fn new() -> Option<TestSchema> {
        TestSchema::at("BATON_TEST_POSTGRES").await
    }

    /// A schema with the layout in this server.
    pub async fn laid_out(server: String, direct: String) -> TestSchema {
        let mut place = TestSchema::bare(direct).await;
        place.server = server;
        place.store("").prepare().await.unwrap();
        place
    }

    /// A schema without tables.
    pub async fn bare(direct: String) -> TestSchema {
        let place = TestSchema { server: direct.clone(), direct, schema: format!("t{}", random()) };
        place.by_hand(&format!("CREATE SCHEMA {}", place.schema)).await;
        place
    }

    /// The URL of the store, with more parameters: `&name=value`.
    pub fn url(&self, more: &str) -> String {
        format!("{}?table={}.baton{more}", self.server, self.schema)
    }

    pub fn store(&self, more: &str) -> Arc<dyn Store> {
        store(&self.url(more)).unwrap()
    }

    /// A connection as any user of the database has it; the schema is first in its search path.
    pub async fn client(&self) -> Client {
        let client = connect(&self.direct).await;
        client.batch_execute(&format!("SET search_path = {}, public", self.schema)).await.unwrap();
        client
    }

    /// Runs statements as a person would; gives the first column of every row.
    pub async fn by_hand(&self, sql: &str) -> Vec<String> {
        let client = connect(&self.direct).await;
        let sql = format!("SET search_path = {}, public; {sql}", self.schema);
        rows(&client, &sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }
}

impl Drop for TestSchema {
    fn drop(&mut self) {
        let (server, schema) = (self.direct.clone(), self.schema.clone());
        let removing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let Ok((client, connection)) = tokio_postgres::connect(&server, NoTls).await else { return };
                tokio::spawn(connection);
                // A transaction that a test left open must not hold up its end.
                let sql = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                        WHERE c.relnamespace = to_regnamespace('{schema}') AND pid <> pg_backend_pid();
                    SET lock_timeout = '5s'; DROP SCHEMA IF EXISTS {schema} CASCADE"
                );
                let _ = client.batch_execute(&sql).await;
            });
        });
        let _ = removing.join();
    }
}

/// The store that a URL names.
pub fn store(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(baton_store_postgres::PostgresStore::open(&url.parse::<StoreUrl>().unwrap())?))
}

pub async fn connect(server: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The first column of every row.
pub async fn rows(client: &Client, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_string()),
            _ => None,
        })
        .collect())
}

/// Something that no other run has.
pub fn random() -> String {
    format!("{:016x}", getrandom::u64().unwrap())
}
