//! Any order of prompts, deltas, errors, stops, compactions and crashes.
//!
//! `proptest` draws the moves, [`World`] makes them and checks after each one
//! what has to be true; see `world.rs` for the list.

mod doing;
mod nobody;
#[path = "../../../tests/rules/mod.rs"]
mod providers;
mod rules;
mod world;

use proptest::prelude::*;

use world::{Move, World};

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        6 => Just(Move::Prompt),
        1 => any::<u8>().prop_map(Move::Remove),
        3 => Just(Move::Stop),
        2 => Just(Move::Resume),
        2 => Just(Move::Compact),
        1 => Just(Move::Clear),
        2 => Just(Move::Crash),
        1 => any::<bool>().prop_map(Move::Window),
        2 => any::<[u8; 2]>().prop_map(|[which, what]| Move::Late(which, what)),
        20 => any::<u8>().prop_map(Move::Well),
        12 => prop::collection::vec(any::<u8>(), 1..6).prop_map(Move::Calls),
        20 => any::<[u8; 3]>().prop_map(|[which, what, more]| Move::Happen(which, what, more)),
    ];
    prop::collection::vec(one, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig {
        // A failure is printed as the moves that lead to it.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_order_of_events_breaks_a_history_or_loses_what_is_finished(moves in moves()) {
        let mut world = World::new();
        for one in moves {
            world.make(one)?;
        }
        world.settle()?;
    }
}
