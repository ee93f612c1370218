//! Many clusters with seeded faults: nothing is served wrong, and when the network is whole again there
//! is one view, one master and one directory.

#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeSet;

use press::core::members::Members;
use press::core::message::Key;
use press::core::node::Source;
use world::{Weather, World};

/// Time after the last fault, enough to give up two masters, one after the other.
const QUIET_MS: u64 = 8_000;

fn keys<'a>(keys: impl Iterator<Item = &'a Key>) -> BTreeSet<Key> {
    keys.cloned().collect()
}

/// Checks that all nodes know the same cluster and each other's pages, and that nobody waits.
fn assert_one_cluster(world: &World, members: Members) {
    for node in members.iter() {
        let others = members.without(node);
        assert_eq!(world.node(node).linked(), others, "links of {node}");
        for other in others.iter() {
            let listing = keys(world.node(node).directory().pages_of(other));
            let pages = keys(world.node(other).cache().keys());
            assert_eq!(listing, pages, "what {node} knows of {other}");
            assert_eq!(world.node(node).link(other).unwrap().waiting(), 0);
        }
    }
    assert_eq!(world.waiting(), 0, "requests that nobody answered");
}

fn assert_one_master(world: &World) {
    let nodes = world.nodes();
    let masters: Vec<usize> = (0..nodes).filter(|&n| world.monitor(n).is_master()).collect();
    assert_eq!(masters.len(), 1, "masters: {masters:?}");
    for node in 0..nodes {
        let view = world.monitor(node).view();
        assert_eq!(view, world.monitor(masters[0]).view(), "view of {node}");
        assert_eq!(view.members, Members::all(nodes));
    }
}

fn settle(world: &mut World) {
    world.heal();
    world.weather = Weather::default();
    for node in 0..world.nodes() {
        world.hang(node, false);
        if !world.is_up(node) {
            world.start(node);
        }
    }
    world.run_ms(QUIET_MS);
    // A change that was lost is noticed at the next one.
    world.clients_for(500);
    world.run_ms(2_000);
}

fn disturb(world: &mut World) {
    let node = world.random.below(world.nodes() as u64) as usize;
    match world.random.below(6) {
        0 if world.is_up(node) => world.crash(node),
        0 | 1 if !world.is_up(node) => world.start(node),
        1 | 2 => world.hang(node, true),
        3 => world.hang(node, false),
        4 => {
            let side = world.random.below((1 << world.nodes()) - 1) + 1;
            world.part(Members(side));
        }
        _ => world.heal(),
    }
}

#[test]
fn after_any_faults_there_is_one_cluster_and_nothing_was_served_wrong() {
    for seed in 0..150 {
        let mut world = World::new(seed, 2 + seed as usize % 4, true);
        world.weather = Weather {
            datagrams_lost: 50,
            datagrams_twice: 50,
            changes_lost: if seed % 2 == 0 { 0 } else { 5 },
            pages_spoilt: if seed % 3 == 0 { 5 } else { 0 },
            reads_failed: 5,
        };
        world.clients_for(6_000);
        for _ in 0..12 {
            let pause = 20 + world.random.below(900);
            world.run_ms(pause);
            disturb(&mut world);
        }
        settle(&mut world);
        assert_one_master(&world);
        assert_one_cluster(&world, Members::all(world.nodes()));
    }
}

#[test]
fn four_memories_are_one() {
    for is_monitored in [false, true] {
        let mut world = World::new(1, 4, is_monitored);
        world.run_ms(2_000);
        world.clients_for(3_000);
        world.run_ms(4_000);
        assert_one_cluster(&world, Members::all(4));
        let count = |kind| world.answered.get(kind).copied().unwrap_or(0);
        assert!(count("peer") > count("disk"), "{:?}", world.answered);
        assert_eq!(count("failed") + count("missing"), 0);
        let sources = [Source::Local, Source::Peer, Source::Disk];
        assert_eq!(sources.len(), world.answered.len());
    }
}

#[test]
fn a_hung_peer_stalls_a_formed_cluster_until_it_goes_on() {
    let mut world = World::new(2, 4, false);
    world.run_ms(500);
    world.clients_for(6_000);
    world.run_ms(1_000);
    world.hang(2, true);
    world.run_ms(2_000);
    let stalled = (0..4).filter(|&n| n != 2 && world.node(n).stall().is_some());
    assert_eq!(stalled.count(), 3);
    let before = world.answered.clone();
    world.run_ms(1_000);
    assert_eq!(world.answered, before, "answers while all wait for one");
    world.hang(2, false);
    world.run_ms(4_000);
    assert_one_cluster(&world, Members::all(4));
}

#[test]
fn a_monitored_cluster_goes_on_without_the_hung_peer_and_takes_it_in_again() {
    let mut world = World::new(3, 4, true);
    world.run_ms(2_000);
    world.clients_for(8_000);
    world.run_ms(1_000);
    world.hang(2, true);
    world.run_ms(2_000);
    for node in [0, 1, 3] {
        assert_eq!(world.monitor(node).view().members, Members::all(4).without(2));
        assert_eq!(world.node(node).stall(), None);
    }
    let before: u64 = world.answered.values().sum();
    world.run_ms(1_000);
    assert!(world.answered.values().sum::<u64>() > before + 500);
    world.hang(2, false);
    world.run_ms(6_000);
    assert_one_master(&world);
    assert_one_cluster(&world, Members::all(4));
}

#[test]
fn a_formed_cluster_goes_on_without_a_crashed_node_and_never_takes_it_in_again() {
    let mut world = World::new(4, 4, false);
    world.run_ms(500);
    world.clients_for(4_000);
    world.run_ms(1_000);
    world.crash(1);
    world.run_ms(100);
    world.start(1);
    world.run_ms(5_000);
    assert!(!world.node(1).membership().serves());
    assert_one_cluster(&world, Members::all(4).without(1));
    // All at once, as an operator would do it.
    (0..4).for_each(|node| world.crash(node));
    world.run_ms(100);
    (0..4).for_each(|node| world.start(node));
    world.run_ms(1_000);
    assert_one_cluster(&world, Members::all(4));
    assert!((0..4).all(|node| world.node(node).membership().serves()));
}

#[test]
fn when_the_master_dies_another_takes_its_place() {
    let mut world = World::new(5, 4, true);
    world.run_ms(2_000);
    let master = world.monitor(0).view().id.master;
    world.crash(master);
    world.run_ms(3_000);
    let rest = Members::all(4).without(master);
    let views: Vec<_> = rest.iter().map(|node| world.monitor(node).view()).collect();
    assert!(views.iter().all(|view| *view == views[0] && view.members == rest));
    assert_ne!(views[0].id.master, master);
    world.start(master);
    world.run_ms(3_000);
    assert_one_master(&world);
}

#[test]
fn two_masters_of_a_parted_network_become_one() {
    let mut world = World::new(6, 4, true);
    world.run_ms(2_000);
    world.clients_for(6_000);
    world.part(Members::only(0).with(1));
    world.run_ms(3_000);
    let masters = (0..4).filter(|&node| world.monitor(node).is_master());
    assert_eq!(masters.count(), 2);
    world.heal();
    world.run_ms(6_000);
    assert_one_master(&world);
    assert_one_cluster(&world, Members::all(4));
}

#[test]
fn a_file_that_vanishes_is_served_until_it_is_nowhere_in_memory() {
    let mut world = World::new(7, 3, true);
    world.run_ms(2_000);
    world.vanished = (0..150).map(|n| format!("page-{n}").into()).collect();
    world.clients_for(3_000);
    world.run_ms(4_000);
    assert!(world.answered["missing"] > 100);
    assert_one_cluster(&world, Members::all(3));
}

#[test]
fn lost_changes_are_told_again() {
    let mut world = World::new(8, 4, true);
    world.weather.changes_lost = 50;
    world.run_ms(2_000);
    world.clients_for(3_000);
    world.run_ms(4_000);
    assert!((0..4).any(|node| world.node(node).counters().gaps > 0));
    settle(&mut world);
    assert_one_cluster(&world, Members::all(4));
}

#[test]
fn all_nodes_down_come_back_as_one_cluster() {
    let mut world = World::new(9, 4, true);
    world.run_ms(2_000);
    world.clients_for(5_000);
    world.run_ms(500);
    (0..4).for_each(|node| world.crash(node));
    world.run_ms(1_000);
    for node in [3, 1, 0, 2] {
        world.start(node);
        world.run_ms(300);
    }
    world.run_ms(6_000);
    assert_one_master(&world);
    assert_one_cluster(&world, Members::all(4));
}
