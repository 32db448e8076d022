//! What measurements say: intervals, warm-up, noise.
