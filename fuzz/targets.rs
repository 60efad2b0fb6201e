//! One test for each kind of input that comes from outside. `scripts/fuzz` runs them under libFuzzer.

#![cfg(test)]

macro_rules! target {
    ($name:ident, $entry:path) => {
        #[test]
        fn $name() {
            bolero::check!().for_each(|data: &[u8]| $entry(data));
        }
    };
}

target!(names, baton_store::fuzzing::names);
target!(records, baton_store::fuzzing::records);
target!(journal, baton_store_embedded::fuzzing::journal);
target!(frame, baton_store_embedded::fuzzing::frame);
target!(stream, baton_node::fuzzing::stream);
target!(pilot, baton_node::fuzzing::pilot);
target!(messages, baton_node::fuzzing::messages);
target!(git, baton_store_git::fuzzing::output);
target!(routes, baton_server::fuzzing::routes);
target!(bodies, baton_server::fuzzing::bodies);
target!(batches, baton_server::fuzzing::batches);
target!(jwt, baton_server::fuzzing::jwt);
