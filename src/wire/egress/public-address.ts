import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/**
 * Whether a literal address belongs to the public internet. This is an allow-list: private, loopback,
 * link-local, carrier NAT, multicast, documentation, tunnel and unparsable addresses are not public. IPv4
 * inside IPv6 (mapped, NAT64) is judged by the IPv4 address.
 */
export function isPublicAddress(text: string): boolean {
  // ipaddr.js alone would also accept short and octal forms, which resolvers read differently.
  if (isIP(text) === 0) return false
  const address = unwrap(ipaddr.parse(text))
  if (address.range() !== 'unicast') return false
  if (address instanceof ipaddr.IPv4) return !PLATFORM_SERVICES.includes(address.toString())
  // Global unicast is 2000::/3 (RFC 4291); `::7f00:1` and other leftovers of ::/96 lie outside of it.
  return address.match(GLOBAL_UNICAST)
}

/** Public addresses that reach a cloud's own services from inside a virtual machine: Azure's metadata and DNS. */
const PLATFORM_SERVICES = ['168.63.129.16']

const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

function unwrap(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 {
  if (address instanceof ipaddr.IPv4) return address
  if (address.isIPv4MappedAddress()) return address.toIPv4Address()
  return address.match(NAT64) ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address
}
