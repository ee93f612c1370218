//! The replication manager's decisions, after each round in which it looked at every server in
//! turn.

use std::collections::HashMap;

use super::Server;

/// An action of the manager.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Take a dead server out of the naming service.
    Remove(Server),
    /// Tell the naming service who is primary.
    Promote(Server),
    /// Have a server of this name started.
    Start(String),
}

/// Remembers who was ordered when.
#[derive(Debug)]
pub struct Rounds {
    start_limit_s: f64,
    ordered_s: HashMap<String, f64>,
}

impl Rounds {
    /// A start that shows nothing for `start_limit_s` is ordered again.
    pub fn new(start_limit_s: f64) -> Self {
        Self { start_limit_s, ordered_s: HashMap::new() }
    }

    /// The next action after a round.
    ///
    /// Parameters: `members`, all names that there should be; `looked`, the registered servers in
    /// the order of their registration, and whether each is alive; `primary`, who the naming
    /// service says it is.
    pub fn after(
        &mut self,
        members: &[String],
        looked: &[(Server, bool)],
        primary: Option<&str>,
        now_s: f64,
    ) -> Vec<Order> {
        let dead = looked.iter().filter(|(_, is_alive)| !is_alive);
        let mut orders: Vec<Order> = dead.map(|(one, _)| Order::Remove(one.clone())).collect();
        let mut living = looked.iter().filter_map(|(one, is_alive)| is_alive.then_some(one));
        let is_led = living.clone().any(|one| Some(one.name.as_str()) == primary);
        if !is_led {
            orders.extend(living.next().map(|one| Order::Promote(one.clone())));
        }
        for name in members {
            let is_alive = looked.iter().any(|(one, is_alive)| *is_alive && &one.name == name);
            let is_under_way = self
                .ordered_s
                .get(name)
                // A clock that stepped back must not make it wait until it has caught up.
                .is_some_and(|at_s| (now_s - at_s).abs() < self.start_limit_s);
            if is_alive {
                self.ordered_s.remove(name);
            } else if !is_under_way {
                self.ordered_s.insert(name.clone(), now_s);
                orders.push(Order::Start(name.clone()));
            }
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::server;

    fn members() -> Vec<String> {
        vec!["a".into(), "b".into()]
    }

    #[test]
    fn nothing_follows_on_a_round_in_which_all_are_well() {
        let looked = [(server("a", 1), true), (server("b", 2), true)];
        let orders = Rounds::new(5.0).after(&members(), &looked, Some("a"), 0.0);
        assert_eq!(orders, []);
    }

    #[test]
    fn a_dead_primary_is_removed_followed_and_started_again() {
        let looked = [(server("a", 1), false), (server("b", 2), true)];
        let orders = Rounds::new(5.0).after(&members(), &looked, Some("a"), 0.0);
        let expected = [
            Order::Remove(server("a", 1)),
            Order::Promote(server("b", 2)),
            Order::Start("a".into()),
        ];
        assert_eq!(orders, expected);
    }

    #[test]
    fn a_start_is_ordered_once_and_again_when_nothing_came_of_it() {
        let mut rounds = Rounds::new(5.0);
        let left = [(server("b", 2), true)];
        let start = [Order::Start("a".into())];
        assert_eq!(rounds.after(&members(), &left, Some("b"), 0.0), start);
        assert_eq!(rounds.after(&members(), &left, Some("b"), 4.0), []);
        assert_eq!(rounds.after(&members(), &left, Some("b"), 5.0), start);
    }

    #[test]
    fn a_clock_that_steps_either_way_has_a_missing_server_ordered_again() {
        for step_s in [-3600.0, 3600.0] {
            let mut rounds = Rounds::new(5.0);
            let left = [(server("b", 2), true)];
            let start = [Order::Start("a".into())];
            assert_eq!(rounds.after(&members(), &left, Some("b"), 1e4), start);
            let stepped_s = 1e4 + step_s;
            assert_eq!(rounds.after(&members(), &left, Some("b"), stepped_s), start);
            assert_eq!(rounds.after(&members(), &left, Some("b"), stepped_s + 1.0), []);
        }
    }

    #[test]
    fn a_server_that_is_back_may_be_started_again_at_once_when_it_dies() {
        let mut rounds = Rounds::new(5.0);
        let b = (server("b", 2), true);
        rounds.after(&members(), &[(server("a", 1), false), b.clone()], Some("b"), 0.0);
        rounds.after(&members(), &[b.clone(), (server("a", 3), true)], Some("b"), 1.0);
        let orders = rounds.after(&members(), &[b, (server("a", 3), false)], Some("b"), 2.0);
        assert!(orders.contains(&Order::Start("a".into())));
    }

    #[test]
    fn when_all_are_dead_all_are_started_and_nobody_is_primary() {
        let looked = [(server("a", 1), false), (server("b", 2), false)];
        let orders = Rounds::new(5.0).after(&members(), &looked, Some("a"), 0.0);
        assert!(!orders.iter().any(|one| matches!(one, Order::Promote(_))));
        assert_eq!(orders.iter().filter(|one| matches!(one, Order::Start(_))).count(), 2);
    }
}
