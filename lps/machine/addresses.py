"""Tell which network addresses are this machine's own."""

import ipaddress


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach a server at `address`; "" means every interface."""
    if address == "localhost":
        return True
    try:
        parsed = ipaddress.ip_address(address.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback
