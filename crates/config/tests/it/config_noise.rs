//! Configurations of random bytes, and random mutations of a valid one.

use crate::config::{EVERYTHING, everything, without_literals};

/// A small reproducible random number generator (xorshift64*, Vigna 2016).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[test]
fn garbage_and_mutated_files_never_panic() {
    let project = everything();
    let pieces = [
        "[[route]]",
        "[pool.api]",
        "=",
        "{",
        "}",
        "\"",
        "'",
        "${",
        "}",
        "\n",
        "-1",
        "9e999",
        "é",
        "\0",
        "/:",
        "*",
        "[",
        "]",
        "inf",
        "server.",
    ];
    for seed in 1..=3000 {
        let mut noise = Noise(seed);
        let mut bytes = if seed % 10 == 0 {
            (0..noise.below(400)).map(|_| noise.next() as u8).collect()
        } else {
            EVERYTHING.as_bytes().to_vec()
        };
        for _ in 0..=noise.below(4) {
            let at = noise.below(bytes.len() + 1);
            let end = (at + noise.below(12)).min(bytes.len());
            let piece = pieces[noise.below(pieces.len())];
            bytes.splice(at..end, piece.bytes());
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(config) = project.parse(&text) {
            assert_eq!(
                project.good(&config.to_toml()),
                without_literals(config),
                "seed {seed}:\n{text}"
            );
        }
    }
}
