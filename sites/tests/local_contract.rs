//! A local site does what every site must do.

mod support;

use support::LocalGround;

cospan_sites::site_contract!(LocalGround::new);
