//! A port that stays ours while its server is down.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::Result;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// A port of 127.0.0.1 that the system gives to nobody who asks for any port, neither to listen nor
/// to connect from. A server that is given its number can listen there, as often as it starts: of
/// addresses that may be used again, only a listener excludes others.
#[derive(Debug)]
pub struct HeldPort {
    number: u16,
    /// Bound, and never listens.
    _socket: OwnedFd,
}

impl HeldPort {
    /// Takes a free port.
    ///
    /// # Errors
    /// The system has none.
    pub fn take_free_port() -> Result<Self> {
        // Servers that are started must not inherit it.
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let number = SocketAddrV4::try_from(getsockname(&socket)?)?.port();
        Ok(Self {
            number,
            _socket: socket,
        })
    }

    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;

    /// Listens there. A program that another test starts has all that is open here between its
    /// fork and its exec, the listener before this one, too: that is waited for, but not for as
    /// long as an address is kept whose connection was closed.
    fn listen(number: u16) -> TcpListener {
        let begun = Instant::now();
        loop {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, number)) {
                Err(error)
                    if error.kind() == ErrorKind::AddrInUse
                        && begun.elapsed() < Duration::from_secs(20) => {}
                server => return server.unwrap(),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_server_can_listen_again_and_again_at_a_port_that_is_held() {
        let held = HeldPort::take_free_port().unwrap();
        for _ in 0..3 {
            let server = listen(held.number());
            let _client = TcpStream::connect((Ipv4Addr::LOCALHOST, held.number())).unwrap();
            // Who closes first keeps the address for a while, as a server does that is killed.
            drop(server.accept().unwrap());
        }
    }

    #[test]
    fn nobody_who_asks_for_any_port_is_given_one_that_is_held() {
        let held: Vec<_> = (0..200)
            .map(|_| HeldPort::take_free_port().unwrap())
            .collect();
        let others: Vec<_> = (0..200)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
            .collect();
        for other in others {
            let given = other.local_addr().unwrap().port();
            assert!(
                held.iter().all(|held| held.number() != given),
                "{given} was given away"
            );
        }
    }
}
