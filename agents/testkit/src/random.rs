//! A seeded generator: SplitMix64 (Steele, Lea, Flood 2014).

/// The generator's state.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is above 0 and far below 2^64.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// An exponential variate of this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        let uniform = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        -mean * (1.0 - uniform).ln()
    }
}
