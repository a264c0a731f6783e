//! A round of bids, as counted by whoever announced the job.

use super::site_bid::BidRefusal;

/// The answers so far, by site index.
#[derive(Debug, Clone)]
pub struct BidRound<G> {
    answers: Vec<Option<Result<G, BidRefusal>>>,
    awaited: usize,
    /// Messages so far: announcements, answers, jobs, acknowledgements, clears.
    messages: u64,
}

impl<G> BidRound<G> {
    /// Begins a round that was announced to this many sites.
    pub fn new(sites: usize) -> Self {
        Self {
            answers: (0..sites).map(|_| None).collect(),
            awaited: sites,
            messages: sites as u64,
        }
    }

    /// Takes the first answer of a site; later ones change nothing.
    pub fn record_answer(&mut self, site: usize, answer: Result<G, BidRefusal>) {
        if let Some(place @ None) = self.answers.get_mut(site) {
            *place = Some(answer);
            self.awaited -= 1;
            self.messages += 1;
        }
    }

    /// Marks a site as unreachable: nothing was sent to it.
    pub fn mark_unreachable(&mut self, site: usize) {
        if let Some(place @ None) = self.answers.get_mut(site) {
            *place = Some(Err(BidRefusal::Silent));
            self.awaited -= 1;
            self.messages -= 1;
        }
    }

    /// Counts messages other than announcements and answers.
    pub fn count_sent(&mut self, messages: u64) {
        self.messages += messages;
    }

    /// Returns the number of messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns true if no answer is outstanding.
    pub fn is_complete(&self) -> bool {
        self.awaited == 0
    }

    /// Ends the round; sites that have not answered count as declined.
    pub fn close_bid_round(&mut self) -> Vec<Result<G, BidRefusal>> {
        self.awaited = 0;
        let answers = std::mem::take(&mut self.answers);
        answers
            .into_iter()
            .map(|answer| answer.unwrap_or(Err(BidRefusal::Silent)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_complete_when_each_site_has_answered_once() {
        let mut round: BidRound<u8> = BidRound::new(3);
        round.record_answer(1, Ok(7));
        round.record_answer(1, Ok(8));
        round.record_answer(9, Ok(9));
        assert!(!round.is_complete());
        round.record_answer(0, Err(BidRefusal::NothingFree));
        round.mark_unreachable(2);
        assert!(round.is_complete());
        assert_eq!(round.messages(), 4, "two announcements and two answers");
        let answers = round.close_bid_round();
        assert_eq!(
            answers,
            [Err(BidRefusal::NothingFree), Ok(7), Err(BidRefusal::Silent)]
        );
    }

    #[test]
    fn who_has_not_answered_when_the_time_is_over_has_declined() {
        let mut round: BidRound<u8> = BidRound::new(2);
        round.record_answer(1, Ok(7));
        assert_eq!(round.close_bid_round(), [Err(BidRefusal::Silent), Ok(7)]);
        round.record_answer(0, Ok(1));
        assert_eq!(round.close_bid_round(), [], "it comes too late");
    }
}
