//! The token pool is kept as stamps per server; this is the pool as sPARE tells it, beside it.

use std::collections::VecDeque;

use policy::{Ask, Guardrails, Observation, Policy, Selector, ServerId, Settings};
use proptest::prelude::*;

const SERVERS: usize = 5;

/// One queue of tokens, scanned from its head.
struct Literal(VecDeque<ServerId>);

impl Literal {
    /// The fastest r of the first n + r servers.
    fn choose(&mut self, (n, r): (usize, usize), last_us: &[u64]) -> Vec<ServerId> {
        let mut heads: Vec<(u64, usize, ServerId)> = Vec::new();
        for (place, &server) in self.0.iter().enumerate() {
            if heads.len() < n + r && !heads.iter().any(|&(_, _, other)| other == server) {
                heads.push((last_us[server], place, server));
            }
        }
        heads.sort_unstable();
        heads.truncate(r);
        for &(_, _, server) in &heads {
            let place = self.0.iter().position(|&other| other == server).unwrap();
            self.0.remove(place);
        }
        heads.into_iter().map(|(_, _, server)| server).collect()
    }
}

proptest! {
    #[test]
    fn equals_a_scan_of_one_queue(
        tokens in 1..4usize,
        look_ahead in 0..=SERVERS,
        steps in prop::collection::vec((any::<bool>(), any::<usize>(), 1..5u64, 1..4usize), 0..200),
    ) {
        let mut selector = Selector::new(Settings {
            tokens_per_server: tokens,
            look_ahead,
            waiting_max: 0,
            guardrails: Guardrails { ejection: None, ..Guardrails::default() },
            ..Settings::new(Policy::from_name("tad-paper").unwrap(), SERVERS)
        });
        let mut literal = Literal((0..tokens * SERVERS).map(|token| token % SERVERS).collect());
        let (mut last_us, mut servers) = ([0; SERVERS], vec![]);
        for (returns, pick, us, r) in steps {
            let mut grants = vec![];
            if returns && !servers.is_empty() {
                let server: ServerId = servers.swap_remove(pick % servers.len());
                last_us[server] = us;
                selector.observe(0, server, Observation::LatencyUs(us));
                selector.release(0, server, &mut grants);
                literal.0.push_back(server);
            } else {
                // Refused where no token is left.
                let _ = selector.acquire(&Ask::new(0, 0, r), &mut grants);
                let choice: Vec<_> = grants.iter().map(|grant| grant.server).collect();
                prop_assert_eq!(&choice, &literal.choose((look_ahead, r), &last_us));
                servers.extend(choice);
            }
        }
    }
}
