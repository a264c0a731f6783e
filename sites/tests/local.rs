//! What only a local site can be asked: processes killed, stopped, forged;
//! roots renamed and replaced; load that changes under our feet.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test program")]

mod support;

mod local {
    mod attacks;
    mod bell;
    mod deaths;
    mod owner;
    mod places;
    mod reach;
    mod reservations;
    mod reuse;
}
