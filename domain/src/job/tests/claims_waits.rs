//! Claims where as much waited lately.

use super::*;

#[test]
fn where_as_much_waited_lately_nothing_is_claimed_or_preempted() {
    let waits = |at: SiteName| {
        let mut field = Field { waited: Some(at), ..field() };
        let attempt = plan(&job_at(240, 0, 8), &mut field);
        (started(&attempt), preempted(&attempt), moved(&attempt))
    };
    assert_eq!(waits(c()), (vec![1, 2, 3], vec![2], vec![]), "elsewhere");
    assert_eq!(waits(a()), (vec![2, 3], vec![], vec![(3, a())]), "16 at A stay unclaimed");
    let mut field = Field { waited: Some(b()), ..field() };
    field.idle = BTreeMap::from([(a(), 16), (b(), 16), (c(), 0)]);
    let attempt = plan(&job_at(240, 0, 17), &mut field);
    assert_eq!((super::started(&attempt), super::preempted(&attempt)), (vec![1, 2], vec![]));
}
