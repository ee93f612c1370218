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

/// Times of the orders so far.
#[derive(Debug)]
pub struct Rounds {
    start_limit_s: f64,
    ordered_s: HashMap<String, f64>,
}

impl Rounds {
    /// Orders a start again that had no effect for `start_limit_s`.
    pub fn new(start_limit_s: f64) -> Self {
        Self { start_limit_s, ordered_s: HashMap::new() }
    }

    /// The next action after a round.
    ///
    /// Parameters: `members`, the names of all servers that there should be; `health`, the
    /// registered servers in the order of their registration, true if alive; `primary`, its name in
    /// the naming service.
    pub fn after(
        &mut self,
        members: &[String],
        health: &[(Server, bool)],
        primary: Option<&str>,
        now_s: f64,
    ) -> Vec<Order> {
        let dead = health.iter().filter(|(_, is_alive)| !is_alive);
        let mut orders: Vec<Order> =
            dead.map(|(server, _)| Order::Remove(server.clone())).collect();
        let mut living = health.iter().filter_map(|(server, is_alive)| is_alive.then_some(server));
        let is_led = living.clone().any(|server| Some(server.name.as_str()) == primary);
        if !is_led {
            orders.extend(living.next().map(|server| Order::Promote(server.clone())));
        }
        for name in members {
            let is_alive =
                health.iter().any(|(server, is_alive)| *is_alive && &server.name == name);
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
        let health = [(server("a", 1), true), (server("b", 2), true)];
        let orders = Rounds::new(5.0).after(&members(), &health, Some("a"), 0.0);
        assert_eq!(orders, []);
    }

    #[test]
    fn a_dead_primary_is_removed_followed_and_started_again() {
        let health = [(server("a", 1), false), (server("b", 2), true)];
        let orders = Rounds::new(5.0).after(&members(), &health, Some("a"), 0.0);
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
        let health = [(server("b", 2), true)];
        let start = [Order::Start("a".into())];
        assert_eq!(rounds.after(&members(), &health, Some("b"), 0.0), start);
        assert_eq!(rounds.after(&members(), &health, Some("b"), 4.0), []);
        assert_eq!(rounds.after(&members(), &health, Some("b"), 5.0), start);
    }

    #[test]
    fn a_clock_that_steps_either_way_has_a_missing_server_ordered_again() {
        for step_s in [-3600.0, 3600.0] {
            let mut rounds = Rounds::new(5.0);
            let health = [(server("b", 2), true)];
            let start = [Order::Start("a".into())];
            assert_eq!(rounds.after(&members(), &health, Some("b"), 1e4), start);
            let stepped_s = 1e4 + step_s;
            assert_eq!(rounds.after(&members(), &health, Some("b"), stepped_s), start);
            assert_eq!(rounds.after(&members(), &health, Some("b"), stepped_s + 1.0), []);
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
        let health = [(server("a", 1), false), (server("b", 2), false)];
        let orders = Rounds::new(5.0).after(&members(), &health, Some("a"), 0.0);
        assert!(!orders.iter().any(|order| matches!(order, Order::Promote(_))));
        assert_eq!(orders.iter().filter(|order| matches!(order, Order::Start(_))).count(), 2);
    }
}
