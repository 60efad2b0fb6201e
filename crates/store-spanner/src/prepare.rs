//! Laying out the tables.
//!
//! On an emulator the instance and the database too, since nothing is in one that was just started. The real ones cost
//! money and have their owners: who names one that is not there is told how it is made.

use std::time::Duration;

use baton_store::StoreError;
use google_cloud_auth::credentials::anonymous;
use google_cloud_gax::retry_policy::{Aip194Strict, NeverRetry, RetryPolicyExt};
use google_cloud_lro::Poller;
use google_cloud_spanner_admin_database_v1::client::DatabaseAdmin;
use google_cloud_spanner_admin_instance_v1::client::InstanceAdmin;
use google_cloud_spanner_admin_instance_v1::model::Instance;

use crate::client::Client;
use crate::fault::{self, Kind, RequestError};
use crate::open::{DatabaseName, Emulator, Settings};
use crate::sql;

/// The longest that laying out may take: Spanner changes a schema in seconds to minutes. An emulator does it at once.
const LIMIT: Duration = Duration::from_secs(180);

/// What must be laid out, as an administrator would write it.
pub(crate) fn layout(settings: &Settings) -> String {
    let place = &settings.place;
    let DatabaseName { project, instance, database, .. } = place;
    format!(
        "-- What Baton keeps in {} (GoogleSQL dialect). To apply it from a file:\n\
         -- gcloud spanner databases ddl update {database} --instance={instance} --project={project} --ddl-file=FILE\n\n\
         {tables}\n\
         -- What each account that takes part needs, for MEMBER its name:\n\
         -- {grant}\n\
         -- Then, as the operator: {init}\n\
         -- It makes the operator's key, which signs appoint, depose, pause, resume, approve, reject and policy, and\n\
         -- writes its public half into `{records}`.\n",
        place.url(),
        tables = settings.tables.explained(),
        grant = place.grant(),
        init = settings.init(),
        records = settings.tables.records,
    )
}

/// What is there.
enum SchemaState {
    /// All of it.
    Everything,
    /// A table or more is not there.
    Missing,
}

/// Lays it out, unless it is there already.
pub(crate) async fn prepare(client: &Client) -> Result<(), StoreError> {
    lay_out(client).await.map_err(|fault| fault.not_applied(client.location()))
}

async fn lay_out(client: &Client) -> Result<(), RequestError> {
    let settings = &client.settings;
    let emulator = settings.place.emulator.as_ref();
    let bare = match (inspect(client).await, emulator) {
        (Ok(SchemaState::Everything), _) => return Ok(()),
        (Ok(SchemaState::Missing), _) => None,
        (Err(fault), Some(emulator)) if fault.kind == Kind::NoDatabase => Some(emulator),
        (Err(fault), _) => return Err(fault),
    };
    let limit = if emulator.is_some() { settings.limit } else { LIMIT };
    let making = async {
        match bare {
            Some(emulator) => make_database(client, emulator).await,
            None => make_tables(client).await,
        }
    };
    let made = tokio::time::timeout(limit, making).await;
    let made = made.unwrap_or_else(|_| Err(at_rest(RequestError::late(limit, settings), settings)));
    // What is there decides, not what the making said: somebody else may have made it at the same time, and a table of
    // the same name that is somebody else's is passed over in silence.
    match (inspect(client).await, made) {
        (Ok(SchemaState::Everything), _) => Ok(()),
        (Ok(SchemaState::Missing), Ok(())) => {
            Err(fault::other_shape(settings, "it is not there although it was made".to_string()))
        }
        (Ok(SchemaState::Missing) | Err(_), Err(fault)) | (Err(fault), Ok(())) => Err(fault),
    }
}

/// Compares what is there with what should be. A table of another shape is a fault.
async fn inspect(client: &Client) -> Result<SchemaState, RequestError> {
    let settings = &client.settings;
    let rows = client.try_query(&sql::columns(&settings.tables)).await?;
    let mut there: Vec<(String, String, String)> = Vec::with_capacity(rows.len());
    for row in &rows {
        let cell = |column: usize| row.get(column).map_err(|error| RequestError::of(&error, settings));
        there.push((cell(0)?, cell(1)?, cell(2)?));
    }
    let mut found = SchemaState::Everything;
    for (table, columns) in settings.tables.all() {
        let name = table.to_lowercase();
        if !there.iter().any(|(table, ..)| *table == name) {
            found = SchemaState::Missing;
            continue;
        }
        for column in columns {
            let kind = there
                .iter()
                .find(|(table, is, _)| *table == name && *is == column.name)
                .map(|(.., kind)| kind);
            match kind {
                Some(kind) if kind.starts_with(column.base_type()) => {}
                Some(kind) => {
                    return Err(fault::other_shape(settings, format!("`{table}.{}` is {kind}", column.name)));
                }
                None => {
                    return Err(fault::other_shape(settings, format!("`{table}` has no `{}`", column.name)));
                }
            }
        }
    }
    Ok(found)
}

async fn make_tables(client: &Client) -> Result<(), RequestError> {
    let settings = &client.settings;
    let admin = database_admin(settings).await?;
    let made = admin
        .update_database_ddl()
        .set_database(settings.place.database_path())
        .set_statements(settings.tables.statements())
        .poller()
        .until_done()
        .await;
    made.map(|_| ()).map_err(|error| {
        let mut fault = at_rest(RequestError::of(&error, settings), settings);
        if fault.kind == Kind::Refused {
            fault.hint = format!(
                "somebody with the role roles/spanner.databaseAdmin can apply what this prints: {} --print",
                settings.init()
            );
        }
        fault
    })
}

async fn make_database(client: &Client, emulator: &Emulator) -> Result<(), RequestError> {
    let settings = &client.settings;
    let place = &settings.place;
    let fault = |error| at_rest(RequestError::of(&error, settings), settings);
    // Retries would only hide for a minute that nobody listens there.
    let admin = InstanceAdmin::builder()
        .with_endpoint(&emulator.rest)
        .with_credentials(anonymous::Builder::new().build())
        .with_retry_policy(NeverRetry)
        .build()
        .await
        .map_err(|error| RequestError::of_builder(&error, settings))?;
    let instance = Instance::new()
        .set_name(place.instance_path())
        .set_config(format!("projects/{}/instanceConfigs/emulator-config", place.project))
        .set_display_name("Baton")
        .set_node_count(1);
    let made = admin
        .create_instance()
        .set_parent(format!("projects/{}", place.project))
        .set_instance_id(&place.instance)
        .set_instance(instance)
        .poller()
        .until_done()
        .await;
    let admin = database_admin(settings).await?;
    let database = admin
        .create_database()
        .set_parent(place.instance_path())
        .set_create_statement(format!("CREATE DATABASE `{}`", place.database))
        .set_extra_statements(settings.tables.statements())
        .poller()
        .until_done()
        .await;
    match (made, database) {
        (_, Ok(_)) => Ok(()),
        // An instance that is there already is no obstacle; one that cannot be made is what explains the rest.
        (Ok(_), Err(error)) => Err(fault(error)),
        (Err(instance), Err(_)) => Err(fault(instance)),
    }
}

async fn database_admin(settings: &Settings) -> Result<DatabaseAdmin, RequestError> {
    let mut builder = DatabaseAdmin::builder().with_attempt_timeout(settings.limit);
    builder = match &settings.place.emulator {
        Some(emulator) => builder
            .with_endpoint(&emulator.rest)
            .with_credentials(anonymous::Builder::new().build())
            .with_retry_policy(NeverRetry),
        None => builder.with_retry_policy(Aip194Strict.with_time_limit(settings.limit)),
    };
    builder.build().await.map_err(|error| RequestError::of_builder(&error, settings))
}

/// An emulator administers databases at a port of its own, which may be the one that was not found.
fn at_rest(mut fault: RequestError, settings: &Settings) -> RequestError {
    if let (Some(emulator), Kind::Passing) = (&settings.place.emulator, fault.kind) {
        fault.why = format!("nothing administers the emulator at {}: {}", emulator.rest, fault.why);
        fault.hint = format!("name its REST port: {}", settings.init_at_rest());
    }
    fault
}
