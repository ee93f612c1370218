//! `net.delay`: every packet of the data interface is held back before it goes on, for a time with
//! jitter. Packets keep their order, as on one path; `net.reorder` is what breaks it.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};
use serde::{Deserialize, Serialize};

use super::dose::Scale;
use super::net_loss::{Direction, DIRECTION};
use super::packet_interceptor::{Goal, Intercepted, PacketFault};
use super::packet_queue::{PacketTransform, Verdict};
use super::parameter::{Default, Parameter};

pub struct NetDelay;
pub const NET_DELAY: Intercepted<NetDelay> = Intercepted(NetDelay);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Law {
    Uniform,
    Gaussian,
    Exponential,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parameters {
    delay_ms: f64,
    jitter_ms: f64,
    law: Law,
    direction: Direction,
}

impl PacketFault for NetDelay {
    const KIND: &'static str = "net.delay";
    const SUMMARY: &'static str = "the data interface's packets held back for a time with jitter";
    const COMMANDS: &'static str =
        "a TAP device sc-ID; nft -f -: table netdev sparecraft_passage_ID leads IPv4 packets \
         ({direction}) of the data interface to it; the agent holds each for {delay_ms} ms, jitter \
         {jitter_ms} ms ({law})";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("delay_ms", "for how long, in each direction")
            .in_unit("ms")
            .at_least(0.1)
            .at_most(10_000.0),
        Parameter::number("jitter_ms", "half-width, standard deviation or mean of what varies")
            .in_unit("ms")
            .at_least(0.0)
            .at_most(10_000.0)
            .or(Default::Number(0.0)),
        Parameter::string(
            "law",
            "of the jitter: delay +- jitter; delay + N(0, jitter); delay + Exp(jitter)",
        )
        .one_of(&["uniform", "gaussian", "exponential"])
        .or(Default::Text("gaussian")),
        DIRECTION,
    ];
    const DOSE: Scale = Scale {
        unit: "ms",
        how: "mean time from when a packet came to the agent until it went on, by its clock; \
              packets keep their order, so with a jitter that is long beside their gaps it is more \
              than asked",
    };
    type Parameters = Parameters;

    fn direction(parameters: &Parameters) -> Direction {
        parameters.direction
    }

    fn transform(parameters: &Parameters, rng: SmallRng) -> Box<dyn PacketTransform> {
        Box::new(Delay { parameters: parameters.clone(), rng, last: [Duration::ZERO; 2] })
    }

    fn goal(parameters: &Parameters) -> Goal {
        Goal::HeldMs(parameters.mean_ms())
    }
}

impl Parameters {
    fn mean_ms(&self) -> f64 {
        match self.law {
            Law::Exponential => self.delay_ms + self.jitter_ms,
            Law::Uniform | Law::Gaussian => self.delay_ms,
        }
    }

    fn draw_ms(&self, rng: &mut SmallRng) -> f64 {
        let varied: f64 = match self.law {
            Law::Uniform => rng.random_range(-1.0..=1.0),
            Law::Gaussian => StandardNormal.sample(rng),
            Law::Exponential => Exp1.sample(rng),
        };
        (self.delay_ms + self.jitter_ms * varied).max(0.0)
    }
}

struct Delay {
    parameters: Parameters,
    rng: SmallRng,
    /// Due time of the last packet of each direction.
    last: [Duration; 2],
}

impl PacketTransform for Delay {
    fn treat(&mut self, _frame: &mut [u8], is_outgoing: bool, now: Duration) -> Verdict {
        let delay_ms = self.parameters.draw_ms(&mut self.rng);
        let last = &mut self.last[usize::from(is_outgoing)];
        *last = (now + Duration::from_secs_f64(delay_ms / 1e3)).max(*last);
        Verdict { due: *last, taken: true, struck: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn parameters(law: Law) -> Parameters {
        Parameters { delay_ms: 50.0, jitter_ms: 10.0, law, direction: Direction::Both }
    }

    #[test]
    fn each_law_has_the_mean_that_is_asked() {
        for law in [Law::Uniform, Law::Gaussian, Law::Exponential] {
            let (delay, mut rng) = (parameters(law), SmallRng::seed_from_u64(7));
            let sum: f64 = (0..10_000).map(|_| delay.draw_ms(&mut rng)).sum();
            // The standard error is 0.1 ms at most.
            assert!((sum / 1e4 - delay.mean_ms()).abs() < 0.6, "{law:?}: {sum}");
        }
    }

    #[test]
    fn packets_of_one_direction_keep_their_order() {
        let mut delay = Delay {
            parameters: Parameters { jitter_ms: 49.0, ..parameters(Law::Uniform) },
            rng: SmallRng::seed_from_u64(1),
            last: [Duration::ZERO; 2],
        };
        let mut due = |n: u64| delay.treat(&mut [], true, Duration::from_millis(n)).due;
        let dues: Vec<Duration> = (0..1_000).map(&mut due).collect();
        assert!(dues.windows(2).all(|pair| pair[0] <= pair[1]));
        let due = delay.treat(&mut [], false, Duration::ZERO).due;
        assert!(due <= Duration::from_millis(99), "{due:?}");
    }
}
