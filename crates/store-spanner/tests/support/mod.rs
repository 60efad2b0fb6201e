//! A database of its own for every test, and a hand that reaches into it with Spanner's own tools.
#![allow(dead_code, reason = "every test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

pub(crate) mod proxy;
pub(crate) mod refuser;

use std::sync::Arc;

use baton_election::command::Acquire;
use baton_election::id::{Incarnation, LeaseKey, StoreId};
use baton_election::{AgentName, Command, Document, ElectionName, Epoch, Evidence, Span, WallTime, decide};
use baton_store::conformance::{Required, required};
use baton_store::{AgeStamp, BoxFuture, Expect, Key, Persistence, Record, Store, StoreError, Swapped, boot};
use baton_store_spanner::SpannerStore;
use google_cloud_auth::credentials::anonymous;
use google_cloud_lro::Poller;
use google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use google_cloud_spanner::client::{DatabaseClient, Spanner, SpannerBuilderExt};
use google_cloud_spanner::result::Row;
use google_cloud_spanner::statement::Statement;
use google_cloud_spanner::transaction::ReadWriteTransaction;
use google_cloud_spanner_admin_database_v1::client::DatabaseAdmin;
use google_cloud_spanner_admin_instance_v1::client::InstanceAdmin;
use google_cloud_spanner_admin_instance_v1::model::Instance;

/// Where an emulator listens.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) grpc: String,
    pub(crate) rest: String,
}

impl Server {
    /// The one that `scripts/services` has started; none if there is none on this machine.
    pub(crate) fn shared() -> Option<Server> {
        match (required("BATON_TEST_SPANNER"), required("BATON_TEST_SPANNER_REST")) {
            (Required::At(grpc), Required::At(rest)) => Some(Server { grpc, rest }),
            (Required::At(_) | Required::Missing, Required::At(_) | Required::Missing) => None,
        }
    }

    /// A database that nobody else uses, with its tables.
    pub(crate) async fn database(&self) -> Database {
        let database = self.bare_database();
        database.store().prepare().await.unwrap();
        database
    }

    /// The name of a database that is not there yet, in an instance that is not there yet either.
    pub(crate) fn bare_database(&self) -> Database {
        let name = format!("t{:x}", boot::now().as_nanos());
        Database { server: self.clone(), path: format!("baton-test/{name}/elections") }
    }
}

/// A database.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) server: Server,
    /// `PROJECT/INSTANCE/DATABASE`.
    pub(crate) path: String,
}

impl Database {
    pub(crate) fn url(&self, parameters: &str) -> String {
        let Server { grpc, rest } = &self.server;
        format!("spanner://{}?emulator={grpc}&rest={rest}&poll=50ms{parameters}", self.path)
    }

    /// Another client, as another process would have it.
    pub(crate) fn store(&self) -> SpannerStore {
        self.store_with("")
    }

    pub(crate) fn store_with(&self, parameters: &str) -> SpannerStore {
        SpannerStore::open(&self.url(parameters).parse().unwrap()).unwrap()
    }

    /// The same, as the suite asks for it.
    pub(crate) fn opened(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move { Arc::new(self.store()) as Arc<dyn Store> })
    }

    /// Makes the instance and the database by hand, with the tables of this script.
    pub(crate) async fn make(&self, script: &str) {
        let bare: Vec<&str> =
            script.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
        let bare = bare.join("\n");
        let statements = bare.split(';').map(str::trim).filter(|statement| !statement.is_empty());
        let [project, instance, database] = self.parts();
        let rest = format!("http://{}", self.server.rest);
        let nobody = || anonymous::Builder::new().build();
        let admin =
            InstanceAdmin::builder().with_endpoint(&rest).with_credentials(nobody()).build().await.unwrap();
        let made =
            admin.create_instance().set_parent(format!("projects/{project}")).set_instance_id(&instance);
        let shape = Instance::new()
            .set_name(format!("projects/{project}/instances/{instance}"))
            .set_config(format!("projects/{project}/instanceConfigs/emulator-config"))
            .set_display_name("test")
            .set_node_count(1);
        made.set_instance(shape).poller().until_done().await.unwrap();
        let admin =
            DatabaseAdmin::builder().with_endpoint(&rest).with_credentials(nobody()).build().await.unwrap();
        let made = admin
            .create_database()
            .set_parent(format!("projects/{project}/instances/{instance}"))
            .set_create_statement(format!("CREATE DATABASE `{database}`"))
            .set_extra_statements(statements);
        made.poller().until_done().await.unwrap();
    }

    fn parts(&self) -> [String; 3] {
        let parts: Vec<String> = self.path.split('/').map(str::to_string).collect();
        parts.try_into().unwrap()
    }

    /// What a person with Spanner's own tools can do.
    pub(crate) async fn by_hand(&self) -> ByHand {
        let spanner = Spanner::builder()
            .with_endpoint(format!("http://{}", self.server.grpc))
            .with_credentials(anonymous::Builder::new().build())
            .with_channel_pool(StaticChannelPoolConfig::new(1))
            .build()
            .await
            .unwrap();
        let [project, instance, database] = self.parts();
        let path = format!("projects/{project}/instances/{instance}/databases/{database}");
        ByHand { database: spanner.database_client(path).build().await.unwrap() }
    }
}

/// Somebody at Spanner's own prompt.
pub(crate) struct ByHand {
    database: DatabaseClient,
}

impl ByHand {
    pub(crate) async fn select(&self, sql: &str) -> Vec<Row> {
        let mut found = self.database.single_use().build().execute_query(sql).await.unwrap();
        let mut rows = Vec::new();
        while let Some(row) = found.next().await {
            rows.push(row.unwrap());
        }
        rows
    }

    /// Changes rows; says how many.
    pub(crate) async fn change(&self, sql: &str) -> i64 {
        let statement = Statement::builder(sql).build();
        let work = move |transaction: ReadWriteTransaction| -> BoxFuture<'static, google_cloud_spanner::Result<i64>> {
            let statement = statement.clone();
            Box::pin(async move { transaction.execute_update(statement).await })
        };
        self.database.read_write_transaction().build().run(work).await.unwrap().into_inner()
    }

    pub(crate) async fn delete(&self, key: &Key) {
        let deleted = self.change(&format!("DELETE FROM Leadership WHERE cluster_id = '{key}'")).await;
        assert_eq!(deleted, 1, "there was a row to delete");
    }
}

pub(crate) fn election(name: &str) -> (ElectionName, Key) {
    let name = ElectionName::new(name).unwrap();
    (name.clone(), Key::Election(name))
}

/// An election that an agent of this name leads, granted above an epoch.
pub(crate) fn led(election: &ElectionName, agent: &str, floor: u64) -> Record {
    let acquire = Acquire {
        ttl: Some(Span::secs(30)),
        task: Some("refactor \"auth\"\n".to_string()),
        ..Acquire::new(AgentName::new(agent).unwrap(), Incarnation([1; 8]), LeaseKey([1; 16]).hash())
    };
    let evidence = Evidence {
        election,
        store: StoreId([7; 8]),
        age: Span::ZERO,
        wall: WallTime::from_unix_millis(1_700_000_000_000),
        floor: Epoch(floor),
        vanished_lease: Span::ZERO,
        operator_keys: &[],
    };
    let decision = decide(None, &Command::Acquire(acquire), &evidence).unwrap();
    Record::Election(Box::new(decision.next.unwrap()))
}

/// The same after one renewal.
pub(crate) fn renewed(record: &Record) -> Record {
    let mut next = document(record).clone();
    next.beat += 1;
    next.leader.as_mut().unwrap().renewals += 1;
    Record::Election(Box::new(next))
}

/// The same after its leader has let go of it.
pub(crate) fn released(record: &Record) -> Record {
    let held = document(record);
    let mut next = Document::new(held.election.clone(), held.store, held.epoch, &[]);
    next.beat = held.beat + 1;
    Record::Election(Box::new(next))
}

/// Swaps once what a lost request has left behind on the server is gone: an emulator keeps one transaction at a time, and
/// one that nobody will end keeps the others out for a while.
pub(crate) async fn swap_at_last(store: &dyn Store, key: &Key, expect: Expect, next: &Record) -> Swapped {
    for _ in 0..60 {
        match store.swap(key, expect.clone(), next, AgeStamp::Reset, Persistence::Durable).await {
            Err(StoreError::Unavailable { .. }) => {}
            done => return done.unwrap(),
        }
    }
    panic!("the server never recovers");
}

pub(crate) fn document(record: &Record) -> &Document {
    let Record::Election(document) = record else { panic!("it is an election") };
    document
}
