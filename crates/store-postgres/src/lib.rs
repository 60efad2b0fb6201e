//! Elections in PostgreSQL, with a fence for its users' own transactions.
//!
//! ```text
//! postgres://USER:PASSWORD@HOST:PORT/DATABASE?table=SCHEMA.NAME&clock=observed&poll=1s&timeout=10s&sslmode=MODE&…
//! ```
//!
//! Assumes PostgreSQL 14 or newer, its primary, with a database in UTF-8, and a pooler in front of it, if any, that keeps
//! a transaction together (PgBouncer in transaction mode does). The tables are laid out by an administrator or by
//! `baton init`; who takes part needs USAGE on the schema, and SELECT, INSERT and UPDATE on both tables.
//!
//! Guarantees that a swap is one statement, applied as a whole or not at all, by whatever level of isolation; that a
//! renewal is one statement that writes one row; that a version never comes back, nor an epoch after a DELETE or a
//! TRUNCATE of the records; that a change by hand is not overwritten unseen; that a swap is on the server's disk when it
//! is answered, even where `synchronous_commit` is off; that nothing waits for ever, neither for the network nor for a
//! lock of somebody else's. `SELECT leader, fencing_token FROM baton` shows who leads.
//!
//! Does not guarantee exclusivity through a step of the server's wall clock, which ages leases are told by, nor through
//! a fail-over to a server with another clock, unless all candidates write `?clock=observed`; fences hold in any case.
//! Does not survive what the database itself does not: a fail-over to a replica that lags, or a restore of an older
//! backup, takes epochs back, except for clients that have seen higher ones. Does not tell of changes at once behind a
//! pooler that lends out its connections by the transaction: watchers look every `poll` then, and
//! [`StoreProperties`](baton_store::StoreProperties) say so from the first watch on. NOTIFY makes commits wait for one another:
//! thousands of renewals a second belong elsewhere.
//!
//! # The fence
//! `baton_fence(resource, election, token)` is for users' own transactions. It is called as a statement of its own before
//! what it guards, and raises an exception if the token may not touch the resource:
//!
//! ```sql
//! BEGIN;
//! SELECT baton_fence('orders', 'refactor-auth', 17);
//! UPDATE orders SET …;
//! COMMIT;
//! ```
//!
//! `ZB001`: the token is stale. `ZB002`: the call is wrong (another election, a store that was made anew, a bad name).
//! `ZB003`: a command of `baton fence … -- CMD` holds the resource. `ZB004`: a row is not intact. `ZB005`: the leader must
//! acknowledge what its predecessor left first, as the policy says.
//!
//! It keeps the same record as `baton fence`, so each sees what the other admitted; of transactions, those that raised
//! the mark are listed. Transactions of one token run beside each other. A later token waits until those of earlier
//! tokens have ended, so that whatever an earlier leader commits comes before anything that a later one does; and from
//! then on the earlier token is refused. Neither renewals nor take-overs wait for a transaction. So that nobody who was
//! stopped holds a resource for ever, the function bounds, for its transaction, how long that may stand idle: by the
//! length of the lease, or what `idle_in_transaction_session_timeout` says if that is less. Under REPEATABLE READ and
//! SERIALIZABLE the election is judged as the snapshot shows it, without the age of its lease; the order of tokens holds
//! there too, with serialisation failures in place of `ZB001`. The function runs with its owner's rights: who calls it
//! needs USAGE on the schema and EXECUTE on the function, and no right to the tables. It is named after the table.

mod fault;
mod listen;
mod names;
mod open;
mod password;
mod pool;
mod prepare;
mod shape;
mod statements;
mod store;
mod tls;
mod watch;

pub use open::open;
pub use store::PostgresStore;
