//! What the server warns of.

use baton_store::Decision;
use baton_store::alerts::{Alerts, Warns};

use crate::store::HttpStore;

impl Warns for HttpStore {
    fn alerts(&self) -> Decision<'_, Alerts> {
        Box::pin(async move {
            let shown = self.client.get("/v1/alerts").await;
            shown.map_err(|fault| fault.of_reading(&self.client.base).into())
        })
    }
}
