//! `net.corrupt`: in a share of the data interface's TCP and UDP packets, drawn at random, one bit
//! of the payload is flipped.
//!
//! With its checksum left as it was, such a packet is dropped by the receiver's kernel: a loss, as
//! with a bad cable. With the checksum repaired the application is given wrong data: what a bad
//! router or card does after it has checked a packet (Stone and Partridge, SIGCOMM 2000).

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::Rng;
use serde::{Deserialize, Serialize};

use super::dose::Scale;
use super::net_loss::{Direction, DIRECTION};
use super::packet_interceptor::{Goal, Intercepted, PacketFault};
use super::packet_queue::{PacketTransform, Verdict};
use super::parameter::{Default, Parameter};

pub struct NetCorrupt;
pub const NET_CORRUPT: Intercepted<NetCorrupt> = Intercepted(NetCorrupt);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Checksum {
    Left,
    Repaired,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parameters {
    percent: f64,
    checksum: Checksum,
    direction: Direction,
}

impl PacketFault for NetCorrupt {
    const KIND: &'static str = "net.corrupt";
    const SUMMARY: &'static str =
        "one bit of the payload flipped in a share of the data interface's TCP and UDP packets";
    const COMMANDS: &'static str =
        "a TAP device sc-ID; nft -f -: table netdev sparecraft_passage_ID leads IPv4 packets \
         ({direction}) of the data interface to it; the agent flips a bit in {percent} % of those \
         with a payload, checksum {checksum}";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::number("percent", "share of packets with a payload, in each direction")
            .in_unit("%")
            .at_least(0.01)
            .at_most(100.0),
        Parameter::string(
            "checksum",
            "left wrong, so that the receiver's kernel drops the packet, or repaired",
        )
        .one_of(&["left", "repaired"])
        .or(Default::Text("left")),
        DIRECTION,
    ];
    const DOSE: Scale = Scale {
        unit: "%",
        how: "packets in which the agent flipped a bit, of those with a payload that it saw",
    };
    type Parameters = Parameters;

    fn direction(parameters: &Parameters) -> Direction {
        parameters.direction
    }

    fn transform(parameters: &Parameters, rng: SmallRng) -> Box<dyn PacketTransform> {
        Box::new(Corrupt { chance: parameters.percent / 100.0, checksum: parameters.checksum, rng })
    }

    fn goal(parameters: &Parameters) -> Goal {
        Goal::Share(parameters.percent / 100.0)
    }
}

struct Corrupt {
    chance: f64,
    checksum: Checksum,
    rng: SmallRng,
}

impl PacketTransform for Corrupt {
    fn treat(&mut self, frame: &mut [u8], _is_outgoing: bool, now: Duration) -> Verdict {
        let segment = Segment::of(frame);
        let struck = segment.is_some() && self.rng.random_bool(self.chance);
        if let Some(segment) = segment.as_ref().filter(|_| struck) {
            let byte = self.rng.random_range(segment.payload..segment.end);
            frame[byte] ^= 1 << self.rng.random_range(0..8);
            if self.checksum == Checksum::Repaired {
                segment.repair(frame);
            }
        }
        Verdict { due: now, taken: segment.is_some(), struck }
    }
}

/// The places of the parts of a TCP or UDP segment with a payload in its frame.
struct Segment {
    protocol: u8,
    start: usize,
    checksum: usize,
    payload: usize,
    end: usize,
}

const ETHERNET: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;

impl Segment {
    /// Parses a frame; none for a fragment, another protocol, or no payload.
    fn of(frame: &[u8]) -> Option<Segment> {
        let ip = frame.get(ETHERNET..)?;
        let start = ETHERNET + usize::from(ip.first()? & 0x0f) * 4;
        let end = ETHERNET + usize::from(word(ip, 2)?);
        let is_fragment = word(ip, 6)? & 0x3fff != 0;
        let protocol = *ip.get(9)?;
        let (checksum, head) = match protocol {
            TCP => (start + 16, usize::from(frame.get(start + 12)? >> 4) * 4),
            UDP => (start + 6, 8),
            _ => return None,
        };
        let payload = start + head;
        let is_whole = payload < end && end <= frame.len() && start >= ETHERNET + 20;
        (is_whole && !is_fragment).then_some(Segment { protocol, start, checksum, payload, end })
    }

    /// Writes the checksum that fits (RFC 9293, RFC 768); a UDP packet without one keeps none.
    fn repair(&self, frame: &mut [u8]) {
        let range = self.checksum..self.checksum + 2;
        if self.protocol == UDP && frame[range.clone()] == [0, 0] {
            return;
        }
        frame[range.clone()].fill(0);
        let sum = self.sum(frame);
        let of_udp_is_none = self.protocol == UDP && sum == 0;
        let value = if of_udp_is_none { 0xffff } else { sum };
        frame[range].copy_from_slice(&value.to_be_bytes());
    }

    /// The complement of the ones' complement sum over addresses, protocol, length and segment:
    /// zero where the checksum in it fits.
    fn sum(&self, frame: &[u8]) -> u16 {
        let addresses = &frame[ETHERNET + 12..ETHERNET + 20];
        let segment = &frame[self.start..self.end];
        let pairs = |bytes: &[u8]| -> u32 {
            let pair =
                |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            bytes.chunks(2).map(pair).sum()
        };
        let mut sum =
            pairs(addresses) + u32::from(self.protocol) + segment.len() as u32 + pairs(segment);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// A frame of one UDP or TCP packet from 198.18.0.1 to 198.18.0.2, its checksum right.
    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut segment = match protocol {
            TCP => vec![0; 20],
            _ => vec![0; 8],
        };
        if protocol == TCP {
            segment[12] = 5 << 4;
        }
        segment.extend(payload);
        let mut frame = vec![0; ETHERNET + 20];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[ETHERNET] = 0x45;
        let length = (20 + segment.len()) as u16;
        frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&length.to_be_bytes());
        frame[ETHERNET + 9] = protocol;
        frame[ETHERNET + 12..ETHERNET + 20].copy_from_slice(&[198, 18, 0, 1, 198, 18, 0, 2]);
        frame.extend(segment);
        if let Some(segment) = Segment::of(&frame) {
            let range = segment.checksum..segment.checksum + 2;
            frame[range].fill(0xff); // not none
            segment.repair(&mut frame);
            assert_eq!(segment.sum(&frame), 0);
        }
        frame
    }

    fn corrupted(frame: &[u8], checksum: Checksum) -> (Vec<u8>, Verdict) {
        let mut corrupt = Corrupt { chance: 1.0, checksum, rng: SmallRng::seed_from_u64(5) };
        let mut frame = frame.to_vec();
        let verdict = corrupt.treat(&mut frame, true, Duration::ZERO);
        (frame, verdict)
    }

    #[test]
    fn one_bit_of_the_payload_is_flipped_and_the_checksum_left_or_repaired() {
        for protocol in [TCP, UDP] {
            let before = packet(protocol, b"what was sent");
            let segment = Segment::of(&before).unwrap();
            for checksum in [Checksum::Left, Checksum::Repaired] {
                let (after, verdict) = corrupted(&before, checksum);
                let bits = |range: std::ops::Range<usize>| -> u32 {
                    let pairs = before[range.clone()].iter().zip(&after[range]);
                    pairs.map(|(a, b)| (a ^ b).count_ones()).sum()
                };
                assert!(verdict.taken && verdict.struck);
                assert_eq!(bits(segment.payload..segment.end), 1);
                assert_eq!(bits(0..segment.checksum), 0);
                assert_eq!(segment.sum(&after) == 0, checksum == Checksum::Repaired);
            }
        }
    }

    #[test]
    fn a_known_packet_has_the_checksum_of_rfc_1071() {
        // RFC 1071, section 3: 0001 f203 f4f5 f6f7 add up to ddf2. Here behind a UDP head.
        let frame = packet(UDP, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        let segment = Segment::of(&frame).unwrap();
        let checksum = word(&frame, segment.checksum).unwrap();
        // ddf2, the addresses (c612 0001 c612 0002), protocol 0011 and length 0010.
        let sum: u32 = 0xddf2 + 0xc612 + 1 + 0xc612 + 2 + 0x11 + 0x10;
        assert_eq!(u32::from(!checksum), (sum & 0xffff) + (sum >> 16));
    }

    #[test]
    fn what_has_no_payload_or_is_no_whole_segment_passes_untouched() {
        let mut fragment = packet(UDP, b"part");
        fragment[ETHERNET + 6] = 0x20;
        let mut short = packet(TCP, b"all of it");
        short.truncate(short.len() - 4);
        for frame in [packet(TCP, b""), packet(1, b"ping"), fragment, short, vec![8; 17]] {
            let (after, verdict) = corrupted(&frame, Checksum::Left);
            assert_eq!(after, frame);
            assert!(!verdict.taken && !verdict.struck);
        }
    }
}
