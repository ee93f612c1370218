//! `net.reorder`: a share of the data interface's packets, drawn at random, is held back while
//! those that come later overtake them.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::dose::Scale;
use super::net_loss::{Direction, DIRECTION};
use super::packet_interceptor::{Goal, Intercepted, PacketFault};
use super::packet_queue::{PacketTransform, Verdict};
use super::parameter::{Default, Parameter};

pub struct NetReorder;
pub const NET_REORDER: Intercepted<NetReorder> = Intercepted(NetReorder);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parameters {
    percent: f64,
    late_ms: f64,
    direction: Direction,
}

impl PacketFault for NetReorder {
    const KIND: &'static str = "net.reorder";
    const SUMMARY: &'static str = "a share of the data interface's packets overtaken by later ones";
    const COMMANDS: &'static str =
        "a TAP device sc-ID; nft -f -: table netdev sparecraft_passage_ID leads IPv4 packets \
         ({direction}) of the data interface to it; the agent holds {percent} % of them for \
         {late_ms} ms and lets the others pass";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("percent", "share of packets that come late, in each direction")
            .in_unit("%")
            .at_least(0.01)
            .at_most(100.0),
        Parameter::number("late_ms", "for how long such a packet waits")
            .in_unit("ms")
            .at_least(0.1)
            .at_most(1_000.0)
            .or(Default::Number(10.0)),
        DIRECTION,
    ];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "packets that went on after one that had come later in the same direction, of all \
              that the agent saw; on a quiet link nothing comes to overtake",
    };
    type Parameters = Parameters;

    fn direction(parameters: &Parameters) -> Direction {
        parameters.direction
    }

    fn transform(parameters: &Parameters, rng: SmallRng) -> Box<dyn PacketTransform> {
        Box::new(Reorder {
            chance: parameters.percent / 100.0,
            late: Duration::from_secs_f64(parameters.late_ms / 1e3),
            rng,
        })
    }

    fn goal(parameters: &Parameters) -> Goal {
        Goal::Overtaken(parameters.percent / 100.0)
    }
}

struct Reorder {
    chance: f64,
    late: Duration,
    rng: SmallRng,
}

impl PacketTransform for Reorder {
    fn treat(&mut self, _frame: &mut [u8], _is_outgoing: bool, now: Duration) -> Verdict {
        let is_late = self.rng.random_bool(self.chance);
        Verdict { due: if is_late { now + self.late } else { now }, taken: true, struck: false }
    }

    fn strikes_by_overtaking(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet_queue::{Counts, Queue};
    use super::*;
    use rand::SeedableRng;
    use std::sync::atomic::Ordering;

    #[test]
    fn about_the_asked_share_of_a_steady_stream_is_overtaken() {
        let mut reorder = Reorder {
            chance: 0.1,
            late: Duration::from_millis(10),
            rng: SmallRng::seed_from_u64(3),
        };
        let (mut queue, counts) = (Queue::default(), Counts::default());
        for now in (0..10_000).map(Duration::from_millis) {
            queue.take(vec![0], true, now, &mut reorder, &counts);
            while queue.next(now, &reorder, &counts).is_some() {}
        }
        let overtaken = counts.struck.load(Ordering::Relaxed);
        // Of 10,000 packets with a chance of 0.1 the standard deviation is 30.
        assert!((850..1_150).contains(&overtaken), "{overtaken}");
    }
}
