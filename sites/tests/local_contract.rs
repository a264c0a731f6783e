//! A local site does what every site must do.

mod support;

use support::LocalSiteFixture;

cospan_sites::site_contract!(LocalSiteFixture::new);
