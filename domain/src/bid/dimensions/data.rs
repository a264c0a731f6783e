//! What the job's input costs: the time until all of it is there, over the time that it runs.

use crate::bid::{Decline, Need, Offer, Route};

/// Several inputs come one after the other.
pub(in crate::bid) fn index(need: &Need, offer: &Offer) -> Result<f64, Decline> {
    let run_time = need.terms.run_time.as_secs_f64();
    if run_time <= 0.0 {
        return Err(Decline::NoRunTime);
    }
    let times = offer.routes.iter().map(|route| match route {
        Route::Here(_) => Ok(need.terms.local_rate.map_or(0.0, |rate| route.seconds(rate))),
        Route::From { upload, download, .. } => {
            let rate = *upload.min(download);
            if rate.0 == 0 { Err(Decline::NoBandwidth) } else { Ok(route.seconds(rate)) }
        }
    });
    Ok(times.sum::<Result<f64, Decline>>()? / run_time)
}
