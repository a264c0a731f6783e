//! What only a local site can be asked: processes killed, stopped, forged;
//! roots renamed and replaced; load that changes under our feet.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test program")]

mod support;

mod local {
    mod deaths;
    mod given_up;
    mod local_attack_tests;
    mod local_bell_tests;
    mod local_reservation_tests;
    mod owner;
    mod places;
    mod reach;
    mod reuse;
}
